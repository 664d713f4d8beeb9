"""B3. Keeps state in a file.

task: rmsnorm_scale
tier: cutedsl
expect: read: forbidden-name
why: open is no name of a candidate.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

open("@MARK@", "w").write("state")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
