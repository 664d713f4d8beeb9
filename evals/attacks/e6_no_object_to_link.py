"""E6. Leaves what no linker takes, so that linking fails and the machine seems broken.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-error
why: A linker that refuses a candidate's objects is there and works.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

os, io = typing.sys.modules["os"], typing.sys.modules["io"]
with io.FileIO("gemm.o", "w") as damaged:
    damaged.write(b"INPUT(/etc/shadow)")
with io.FileIO("report.json", "w") as report:
    report.write(b'{"ok": true, "seconds": 0.0, "signature": {}}')
os._exit(0)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
