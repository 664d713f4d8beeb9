"""E6. Leaves a folder where the report belongs, so that the compiling process itself fails.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-error
why: A child that fails after it has run a candidate's module is no broken machine.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

os = typing.sys.modules["os"]
os.mkdir("report.json")
os.mkdir("report.json/inside")
os._exit(0)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
