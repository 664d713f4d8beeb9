"""E3. Fills the disk below folders whose names are so long that no path reaches them.

task: rmsnorm_scale
tier: cutedsl
expect: compile: too-much
why: A folder that cannot be counted is too much.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os, time = modules["os"], modules["time"]
home = os.getcwd()
for _ in range(20):
    os.mkdir("n" * 255)
    os.chdir("n" * 255)
for number in range(5):
    os.posix_fallocate(os.open(f"large{number}", os.O_CREAT | os.O_RDWR), 0, 140 << 20)
os.chdir(home)
time.sleep(2)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
