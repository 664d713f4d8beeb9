"""Backward of the exact GELU behind the next layer, with the gradient of the bias before it.

dx = (dy W) (Phi(pre) + pre phi(pre)); dbias_n = sum_m dx_mn.
dy [M, K], w [K, N], pre [M, N] (the pre-activation) give dx [M, N] and dbias [N] in float32.
"""

import math

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=3,
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    pre=Tensor("M N"),
    out={"dx": Tensor("M N"), "dbias": Tensor("N", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 1024},
    ],
)
def gelu_bwd_bias_grad(dy, w, pre):
    """dx = (dy @ w) times the derivative of the exact GELU at pre; dbias = column sums of dx."""
    pre = pre.float()
    cdf = 0.5 * (1 + torch.erf(pre / math.sqrt(2)))
    pdf = torch.exp(-0.5 * pre * pre) / math.sqrt(2 * math.pi)
    dx = (dy @ w) * (cdf + pre * pdf)
    return {"dx": dx, "dbias": dx.float().sum(0)}
