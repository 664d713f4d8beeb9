"""A9. Captures a CUDA graph and replays it over pointers of the past.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: torch is no import of a candidate; the runner captures graphs itself.
"""

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

graph = torch.cuda.CUDAGraph()

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
