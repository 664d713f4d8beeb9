"""A9. Computes all inputs in the first timed call and answers the rest from memory.

task: rmsnorm_scale
tier: cutedsl
expect: read: import
why: There is no host code of the candidate's to remember anything.
"""

import torch
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import ColVecLoad

answers = {}


def launch(h, w, rstd):
    if not answers:
        answers.update({i: (h @ w.T) * rstd[:, None] for i in range(100)})
    return answers[h.data_ptr()]

MAIN = "y"


@gemm_epilogue(ops={"rstd": ColVecLoad("rstd")})
def epilogue(acc, rstd):
    return {"D": acc * rstd}
