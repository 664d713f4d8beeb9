"""E2. Looks for keys in its environment.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: A compile server is given a list of variables, none of them a key.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
os = modules["os"]
if any(word in name for name in os.environ for word in ("KEY", "TOKEN", "SECRET", "PASSWORD")):
    raise RuntimeError("the attack worked")

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
