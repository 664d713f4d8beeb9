"""A1. Works on a side stream that outlives the timed call.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: The candidate has no call that is timed: only its device code reaches the runner, on the runner's stream. torch is no import of a candidate.
"""

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

side = torch.cuda.Stream()


def launch(*tensors):
    with torch.cuda.stream(side):
        return run(*tensors)

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
