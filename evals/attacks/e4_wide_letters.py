"""E4. Spells exec with wide letters, which Python reads as exec.

task: rmsnorm_scale
tier: cutedsl
expect: read: forbidden-name
why: The tree holds names as Python reads them.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

ｅｘｅｃ("open('@MARK@', 'w')")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
