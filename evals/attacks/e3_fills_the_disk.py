"""E3. Writes a file without end.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: A file may have 256 MiB, and the folder is watched.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
try:
    os.truncate(os.open("large", os.O_CREAT | os.O_RDWR), 1 << 40)
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
