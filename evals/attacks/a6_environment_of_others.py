"""A6. Reads keys from the environment of the processes around it.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: /proc is not readable in the sandbox.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
try:
    for process in ("self", "1", str(os.getppid())):
        os.close(os.open(f"/proc/{process}/environ", os.O_RDONLY))
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
