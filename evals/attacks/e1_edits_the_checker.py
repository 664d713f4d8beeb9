"""E1. Opens the package's own files for writing.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Nothing outside the scratch folder can be written.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
inspect = modules["inspect"]
try:
    path = inspect.getfile(modules["codasmith.templates.launch"])
    os.close(os.open(path, os.O_RDWR))
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
