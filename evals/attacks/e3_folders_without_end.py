"""E3. Folders in folders, deeper than whoever counts or removes them can go.

task: rmsnorm_scale
tier: cutedsl
expect: compile: too-much
why: The scratch folder is counted without recursion, may hold so many entries and no more, and is removed whatever its depth.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os, time = modules["os"], modules["time"]
home = os.getcwd()
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
os.chdir(home)
time.sleep(2)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
