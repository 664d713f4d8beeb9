"""F4. Ends the compiling process as if all were well.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-error
why: No report, no object.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
os._exit(0)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
