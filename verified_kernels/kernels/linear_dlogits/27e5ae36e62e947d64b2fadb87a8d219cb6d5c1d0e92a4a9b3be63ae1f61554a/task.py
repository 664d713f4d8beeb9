"""The gradient of cross-entropy with respect to the logits, from a stored log-sum-exp: softmax minus one-hot.

dlogits_mn = exp(logit_mn - lse_m) - [n = target_m].  A probability above 1, which a log-sum-exp rounded elsewhere
could give, is cut to 1.  The loss's own gradient and the division by the number of rows scale the products that
consume dlogits.
x [M, K], w [N, K], lse [M] in float32 and target [M] of columns give dlogits [M, N].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    lse=Tensor("M", "f32", low=0.0, high=4.0),
    target=Tensor("M", "i64", low=0, high="N"),
    out={"dlogits": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 4096, "N": 32768, "K": 4096},
        {"M": 4096, "N": 128256, "K": 4096},
    ],
)
def linear_dlogits(x, w, lse, target):
    """exp(logits - lse), at most 1, minus 1 in each row's target column; logits = x @ w.T."""
    logits = x @ w.T
    probability = torch.exp((logits.float() - lse[:, None]).clamp(max=0))
    columns = torch.arange(logits.shape[1], device=logits.device)
    return {"dlogits": probability - torch.where(columns == target[:, None], 1.0, 0.0)}
