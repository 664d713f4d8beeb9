"""A2. Answers with a Tensor subclass that computes when it is looked at.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: No object of the candidate's reaches the comparison, which is on the referee's own buffers.
"""

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
