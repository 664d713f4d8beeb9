"""Logits with the log-sum-exp of each row, for sampling, distillation and z-losses.

x [M, K], w [N, K] give logits [M, N] and lse [M] in float32.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    out={"logits": Tensor("M N"), "lse": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 4096, "N": 32768, "K": 4096},
    ],
)
def linear_lse(x, w):
    """logits = x @ w.T; lse = log(sum(exp(logits))) over each row."""
    logits = x @ w.T
    return {"logits": logits, "lse": torch.logsumexp(logits.float(), -1)}
