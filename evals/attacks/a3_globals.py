"""A3. Reaches the harness through a function's globals.

task: rmsnorm_scale
tier: cutedsl
expect: read: forbidden-name
why: The attribute is refused; behind it lies the compile child only.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

harness = gemm_epilogue.__globals__["sys"].modules

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
