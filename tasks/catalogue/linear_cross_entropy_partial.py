"""The vocabulary projection with what the cross-entropy needs of each row: target logit and log-sum-exp.

loss_m = lse_m - target_logit_m.  x [M, K], w [N, K], target [M] of columns give logits [M, N], and target_logit and
lse [M] in float32.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    target=Tensor("M", "i64", low=0, high="N"),
    out={"logits": Tensor("M N"), "target_logit": Tensor("M", "f32"), "lse": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 4096, "N": 32768, "K": 4096},
        {"M": 4096, "N": 128256, "K": 4096},
        {"M": 2048, "N": 32768, "K": 2048},
        {"M": 8192, "N": 32768, "K": 8192},
    ],
)
def linear_cross_entropy_partial(x, w, target):
    """logits = x @ w.T; each row's logit in column target, and its log-sum-exp."""
    logits = x @ w.T
    target_logit = logits.float().gather(-1, target[:, None])[:, 0]
    return {"logits": logits, "target_logit": target_logit, "lse": torch.logsumexp(logits.float(), -1)}
