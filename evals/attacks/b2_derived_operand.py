"""B2. Keeps a transposed weight from call to call.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: No tensor ever reaches the candidate's Python.
"""

import functools

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad


@functools.lru_cache
def transposed(w):
    return torch.clone(w.T)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
