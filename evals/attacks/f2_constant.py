"""F2. A returned constant, which compiles.

task: rmsnorm_scale
tier: cutedsl
expect: numerics: wrong-values
why: The values are wrong.
"""

from cutlass import Float32
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": Float32(1.0)}
