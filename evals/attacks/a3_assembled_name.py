"""A3. The same with names put together from pieces, reached through an allowed module.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: It patches its own compile child, whose clock nobody reads.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
torch = modules["torch"]
time = modules["time"]
setattr(torch.cuda, "Ev" + "ent", None)
setattr(torch.cuda, "synchro" + "nize", lambda *a: None)
getattr(time, "perf" + "_counter")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
