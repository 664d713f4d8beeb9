"""E3. Starts threads without end, until no other process gets one.

task: rmsnorm_scale
tier: cutedsl
expect: compile: too-much
why: Threads stay possible, for the compiler has some; a job with more than a thousand is stopped.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
_thread, time = modules["_thread"], modules["time"]
_thread.stack_size(65536)
for _ in range(3000):
    _thread.start_new_thread(time.sleep, (30,))
time.sleep(2)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
