"""D2. Calls the library instead of being a kernel.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: torch is no import of a candidate.
"""

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad


def launch(h, w, rstd):
    return torch.mm(h, w.T) * rstd[:, None]

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
