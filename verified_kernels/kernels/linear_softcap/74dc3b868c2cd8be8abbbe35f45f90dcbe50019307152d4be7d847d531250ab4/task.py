"""Logits limited smoothly, as in Gemma 2: y = cap tanh(x W^T / cap).

x [M, K], w [N, K] and a number give y [M, N].  The weights are drawn so that logits reach past the cap.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="16 * K**-0.5"),
    cap=Tensor("", low=10.0, high=30.0),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 4096, "N": 32768, "K": 4096},
    ],
)
def linear_softcap(x, w, cap):
    """y = cap * tanh((x @ w.T) / cap)."""
    return {"y": cap * torch.tanh((x @ w.T) / cap)}
