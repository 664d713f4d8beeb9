"""A10. Makes every clock of its process stand still.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Only its own process has it; a time below the roofline is refused by the referee.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
time = modules["time"]
time.perf_counter = lambda: 0.0

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
