"""B1. Answers from a cache by data pointer and version.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: No tensor ever reaches the candidate's Python.
"""

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

cache: dict[tuple[int, int], torch.Tensor] = {}


def launch(h, w, rstd):
    key = (h.data_ptr(), h._version)
    if key not in cache:
        cache[key] = (h @ w.T) * rstd[:, None]
    return cache[key]

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
