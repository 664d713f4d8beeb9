"""The clamped SwiGLU of gpt-oss, with its bias: o = (up + 1) gate sigmoid(alpha gate).

gate is limited from above, up from both sides; the checkpoint's columns alternate gate, up (gpt-oss model card,
arXiv 2508.10925).  x [M, K], w [2F, K] and bias [2F] as pairs, alpha and limit give o [M, F].  The weights are
drawn so that pre-activations reach the limit.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="3 * K**-0.5", layout="pairs"),
    bias=Tensor("2F", layout="pairs"),
    alpha=Tensor("", low=1.25, high=2.0),
    limit=Tensor("", low=2.0, high=4.0),
    out={"o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 2880, "K": 2880},
    ],
)
def linear_swiglu_limit(x, w, bias, alpha, limit):
    """o = (up + 1) * gate * sigmoid(alpha * gate), gate at most limit, up within [-limit, limit]."""
    gate, up = (x @ w.T + bias).unflatten(-1, (-1, 2)).unbind(-1)
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return {"o": (up + 1) * gate * torch.sigmoid(alpha * gate)}
