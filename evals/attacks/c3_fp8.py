"""C3. Rounds the accumulator to eight bits.

task: rmsnorm_scale
tier: cutedsl
expect: numerics: wrong-values
why: The error may be twice that of the unfused path in the same dtype, not sixteen times.
"""

from cutlass import Float8E4M3FN, Float32
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc.to(Float8E4M3FN).to(Float32) * rstd}
