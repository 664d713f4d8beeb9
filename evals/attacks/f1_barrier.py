"""F1. A barrier of the whole block inside the epilogue, which half of its threads never reach.

task: rmsnorm_scale
tier: cutedsl
expect: tune: runner-hung
why: It compiles, and hangs: the runner is stopped.
"""

import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    cute.arch.sync_threads()
    return {"D": acc * rstd}
