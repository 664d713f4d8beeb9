"""E3. Signals the processes beside it.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: Signals to other processes are refused.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
try:
    os.kill(os.getppid(), 0)
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
