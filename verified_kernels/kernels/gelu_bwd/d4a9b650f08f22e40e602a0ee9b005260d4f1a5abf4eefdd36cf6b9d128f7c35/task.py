"""Backward of the exact GELU behind the next layer: dx = (dy W) (Phi(pre) + pre phi(pre)).

dy [M, K], w [K, N], pre [M, N] (the pre-activation) give dx [M, N].
"""

import math

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    pre=Tensor("M N"),
    out={"dx": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 1024},
    ],
)
def gelu_bwd(dy, w, pre):
    """dx = (dy @ w) times the derivative of the exact GELU at pre."""
    pre = pre.float()
    cdf = 0.5 * (1 + torch.erf(pre / math.sqrt(2)))
    pdf = torch.exp(-0.5 * pre * pre) / math.sqrt(2 * math.pi)
    dx = (dy @ w) * (cdf + pre * pdf)
    return {"dx": dx}
