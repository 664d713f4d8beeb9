"""A gate: y = sigmoid(x W^T), as in gated attention and mixture routing.

x [M, K], w [N, K] give y [M, N].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 2048},
    ],
)
def linear_sigmoid(x, w):
    """y = sigmoid(x @ w.T)."""
    return {"y": torch.sigmoid(x @ w.T)}
