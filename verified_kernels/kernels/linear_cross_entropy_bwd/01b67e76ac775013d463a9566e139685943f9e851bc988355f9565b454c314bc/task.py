"""Backward of linear_cross_entropy: from the gradient of each row's loss to those of x and w.

dlogits_mn = (exp(logit_mn - lse_m) - [n = target_m]) dloss_m by a row kernel; then dx = dlogits W, dW = dlogits^T x.
A mean over rows, their weights and rows to be ignored are all in dloss; where it is 0, the row's part is 0 whatever
its target.  A probability above 1, which logits rounded after their log-sum-exp was taken could give, is cut to 1.
dloss and lse [M] in float32, logits [M, N], target [M] of columns, x [M, K], w [N, K] give dx [M, K] and dw [N, K].
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task, rows


@program_task(
    dloss=Tensor("M", "f32"),
    logits=Tensor("M N", scale=2.0),
    lse=Tensor("M", "f32", low=1.0, high=6.0),
    target=Tensor("M", "i64", low=0, high="N"),
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    stages=(
        rows("softmax", "dlogits", reads=("logits", "lse", "target", "dloss"), writes=("dlogits",)),
        product("input", "dlogits @ w", writes=("dx",)),
        product("weight", "dlogits.T @ x", writes=("dw",)),
    ),
    between={"dlogits": Tensor("M N")},
    out={"dx": Tensor("M K"), "dw": Tensor("N K")},
    workloads=[
        {"M": 16384, "N": 32768, "K": 4096},
        {"M": 4096, "N": 128256, "K": 4096},
        {"M": 8192, "N": 151936, "K": 2048},
    ],
)
def linear_cross_entropy_bwd(dloss, logits, lse, target, x, w):
    """The gradients of linear_cross_entropy with respect to x and w."""
    probability = torch.exp((logits.float() - lse[:, None]).clamp(max=0))
    columns = torch.arange(logits.shape[1], device=logits.device)
    dlogits = (probability - torch.where(columns == target[:, None], 1.0, 0.0)) * dloss[:, None]
    dlogits = dlogits.to(x.dtype)
    return {"dx": dlogits @ w, "dw": dlogits.T @ x}
