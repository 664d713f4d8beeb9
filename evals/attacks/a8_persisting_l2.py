"""A8. Reserves a part of the L2 cache, which the flush between calls leaves alone.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: No driver is reachable where the candidate's Python runs, and timed calls rotate over buffers larger than the cache.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
ctypes = modules["ctypes"]
try:
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuInit(0):
        raise OSError("no GPU")
    driver.cuCtxSetLimit(6, 32 << 20)
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
