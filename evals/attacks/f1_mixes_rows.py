"""F1. A warp reduction, which mixes rows.

task: rmsnorm_scale
tier: cutedsl
expect: numerics: wrong-values
why: It compiles; the values are wrong.
"""

import operator

import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": cute.arch.warp_reduction(acc, operator.add) * rstd}
