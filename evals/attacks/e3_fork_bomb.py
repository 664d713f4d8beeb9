"""E3. Starts processes without end.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: No process can be started from a compile child.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
try:
    for _ in range(64):
        child = os.fork()
        if child == 0:
            os._exit(0)
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
