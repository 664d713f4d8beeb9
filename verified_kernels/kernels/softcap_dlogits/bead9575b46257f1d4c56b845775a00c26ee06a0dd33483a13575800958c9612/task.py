"""The gradient of cross-entropy through soft-capped logits, from a stored log-sum-exp.

With c = cap tanh(x W^T / cap): d_mn = (exp(c_mn - lse_m) - [n = target_m]) (1 - (c_mn / cap)^2).  A probability above
1, which a log-sum-exp rounded elsewhere could give, is cut to 1.  Gemma Team 2024, arXiv 2408.00118.
x [M, K], w [N, K], a number, lse [M] in float32 and target [M] of columns give dlogits [M, N].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="4 * K**-0.5"),
    cap=Tensor("", low=4.0, high=8.0),
    lse=Tensor("M", "f32", low=0.0, high=4.0),
    target=Tensor("M", "i64", low=0, high="N"),
    out={"dlogits": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 4096, "N": 32768, "K": 4096},
        {"M": 2048, "N": 256000, "K": 3584},
    ],
)
def softcap_dlogits(x, w, cap, lse, target):
    """(softmax of the capped logits, at most 1, minus one-hot) times the cap's derivative."""
    t = torch.tanh((x @ w.T).float() / cap)
    probability = torch.exp((cap * t - lse[:, None]).clamp(max=0))
    columns = torch.arange(w.shape[0], device=w.device)
    hot = torch.where(columns == target[:, None], 1.0, 0.0)
    return {"dlogits": (probability - hot) * (1 - t * t)}
