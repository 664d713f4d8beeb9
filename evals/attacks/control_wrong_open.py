"""control. An honest mistake in CuTeDSL, which only a GPU shows.

task: rmsnorm_scale
tier: cutedsl
expect: numerics: wrong-values
why: The scale is squared; the open tier is not interpreted.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd * rstd}
