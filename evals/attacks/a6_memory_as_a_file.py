"""A6. Scans its memory for seeds.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The file is not readable, and no seed is ever in a compile child: seeds are drawn by the referee after compilation.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
try:
    os.close(os.open("/proc/self/mem", os.O_RDONLY))
except OSError:
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
