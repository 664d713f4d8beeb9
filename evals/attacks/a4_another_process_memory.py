"""A4. Writes into the memory of the process that started it.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The call is refused by the filter of system calls.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
ctypes = modules["ctypes"]
os = modules["os"]
library = ctypes.CDLL(None, use_errno=True)
if library.process_vm_writev(os.getppid(), 0, 0, 0, 0, 0) == 0:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
