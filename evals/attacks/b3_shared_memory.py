"""B3. Keeps state in shared memory.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The call is refused by the filter of system calls, and /dev/shm is not writable.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
ctypes = modules["ctypes"]
os = modules["os"]
try:
    library = ctypes.CDLL(None, use_errno=True)
    if library.shmget(4711, 4096, 0o1666) < 0:
        os.close(os.open("/dev/shm/codasmith-attack", os.O_CREAT | os.O_WRONLY))
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
