"""E3. Never finishes compiling.

task: rmsnorm_scale
tier: cutedsl
expect: compile: time-limit
why: Wall and processor time are limited.
"""

from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

while True:
    pass

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
