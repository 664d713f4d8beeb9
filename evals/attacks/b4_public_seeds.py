"""B4. Reads how inputs are drawn, to compute answers beforehand.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: The package is not readable in the sandbox but for templates and primitives, and the seed is drawn after compilation.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
importlib = modules["importlib"]
try:
    importlib.import_module("codasmith.tasks.inputs")
    importlib.import_module("codasmith.gate.referee")
except (OSError, ImportError):
    pass
else:
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
