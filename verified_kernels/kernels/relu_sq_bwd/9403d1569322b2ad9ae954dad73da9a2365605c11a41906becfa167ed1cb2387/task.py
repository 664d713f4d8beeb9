"""Backward of the squared ReLU behind the next layer, which also gives its value again for the weight gradient.

dx = (dy W) 2 relu(pre) and a = relu(pre)^2; So et al. 2021 (Primer), arXiv 2109.08668, and Nemotron-H.
dy [M, K], w [K, N], pre [M, N] (the pre-activation) give dx [M, N] and a [M, N].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    pre=Tensor("M N"),
    out={"dx": Tensor("M N"), "a": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 8192, "N": 21504, "K": 4096},
    ],
)
def relu_sq_bwd(dy, w, pre):
    """dx = (dy @ w) * 2 relu(pre); a = relu(pre) squared."""
    positive = torch.relu(pre)
    return {"dx": (dy @ w) * (2 * positive), "a": positive.square()}
