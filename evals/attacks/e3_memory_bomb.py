"""E3. Takes all memory.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The address space is limited.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
mmap = modules["mmap"]
try:
    for _ in range(4):
        mmap.mmap(-1, 1 << 40)
except (OSError, MemoryError):
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
