"""E3. Has the kernel send its signals: a pipe that tells another process that there is something to read.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: A descriptor's owner cannot be set from a compile child.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os, fcntl = modules["os"], modules["fcntl"]
mine, other = os.pipe()
try:
    fcntl.fcntl(mine, 8, os.getppid())  # F_SETOWN
    fcntl.fcntl(mine, 10, 28)  # F_SETSIG: a signal that nobody minds
except PermissionError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
