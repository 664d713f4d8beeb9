"""E3. Empty files without end, which take no room and all the time of whoever counts them.

task: rmsnorm_scale
tier: cutedsl
expect: compile: too-much
why: The scratch folder may hold so many entries and no more.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os, time = modules["os"], modules["time"]
for number in range(60_000):
    os.mknod(str(number))
time.sleep(2)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
