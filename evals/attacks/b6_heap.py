"""B6. Looks for the expected tensor among all objects.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: There is none in the compile child.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
gc = modules["gc"]
torch = modules["torch"]
for thing in gc.get_objects():
    if isinstance(thing, torch.Tensor) and thing.device.type == "cuda":
        raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
