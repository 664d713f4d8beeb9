"""F4. Takes the compiling process down.

task: rmsnorm_scale
tier: cutedsl
expect: compile: compiler-abort
why: A signal of the child is a finding; the server and its other jobs go on.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
os.abort()

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
