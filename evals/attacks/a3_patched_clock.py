"""A3. Replaces the events and the clock by which it is timed.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: torch and time are no imports of a candidate, and the clock runs in the referee, which loads no candidate.
"""

import time

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

torch.cuda.Event.elapsed_time = lambda self, other: 1e-3
torch.cuda.synchronize = lambda *a: None
time.perf_counter = lambda: 0.0

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
