"""C8. Replaces the comparison.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: It is replaced in the compile child; the comparison is the referee's.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
torch = modules["torch"]
torch.allclose = torch.equal = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
