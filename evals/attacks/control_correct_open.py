"""control. A correct CuTeDSL kernel, which must pass.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Nothing is wrong with it.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
