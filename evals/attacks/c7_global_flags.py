"""C7. Flips global flags, so that the reference computes otherwise.

task: rmsnorm_scale
tier: cutedsl
expect: checked
why: They are flipped in the compile child; the reference is computed by the referee.
"""

import typing
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

modules = typing.sys.modules
torch = modules["torch"]
torch.backends.cuda.matmul.allow_tf32 = True
torch.use_deterministic_algorithms(False)
torch.set_default_dtype(torch.float16)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
