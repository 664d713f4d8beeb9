"""E3. Sends something out.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: There are no sockets in the sandbox.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
socket = modules["socket"]
try:
    socket.socket()
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
