"""E3. Fills the disk with files that no folder holds any more, or none that can be listed.

task: rmsnorm_scale
tier: cutedsl
expect: compile: too-much
why: What a job's processes hold open without a name is counted with its folder, and a folder that cannot be counted is too much.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os, time = modules["os"], modules["time"]
held = []
for number in range(5):
    held.append(os.open(f"large{number}", os.O_CREAT | os.O_RDWR))
    os.posix_fallocate(held[-1], 0, 140 << 20)
    os.unlink(f"large{number}")
time.sleep(2)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
