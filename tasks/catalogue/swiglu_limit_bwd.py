"""Backward of the limited SwiGLU of gpt-oss, behind the down projection: D = dy W; o recomputed.

o = (up + 1) gate sigmoid(alpha gate), gate cut at limit and up at both ends, where no gradient passes.  With
s = sigmoid(alpha gate): d_up = D gate s, d_gate = D (up + 1) (s + alpha gate s (1 - s)).  A value that is the limit
itself counts as cut (torch.clamp lets its gradient pass).  OpenAI 2025, arXiv 2508.10925.
dy [M, K], w [K, F] (the down projection), z [M, 2F] of alternating gate, up, and two numbers give dz [M, 2F] alike and
o [M, F].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K F", scale="K**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    alpha=Tensor("", low=1.0, high=2.0),
    limit=Tensor("", low=0.5, high=1.5),
    out={"dz": Tensor("M 2F", layout="pairs"), "o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 4096, "K": 4096},
        {"M": 8192, "F": 8192, "K": 8192},
        {"M": 16384, "F": 2880, "K": 2880},
    ],
)
def swiglu_limit_bwd(dy, w, z, alpha, limit):
    """dz, the gradient of z through o = (up + 1) * gate * sigmoid(alpha * gate), both limited; o itself."""
    d = dy @ w
    gate, up = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    inside_gate, inside_up = gate < limit, up.abs() < limit
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    s = torch.sigmoid(alpha * gate)
    d_gate = torch.where(inside_gate, d * (up + 1) * (s + alpha * gate * s * (1 - s)), 0.0)
    d_up = torch.where(inside_up, d * gate * s, 0.0)
    return {"dz": torch.stack((d_gate, d_up), -1).flatten(-2), "o": (up + 1) * gate * s}
