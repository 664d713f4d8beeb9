"""Backward of SwiGLU, behind the down projection: D = dy W, then the chain rule, o recomputed, and a row statistic.

With s = sigmoid(gate): d_up = D silu(gate), d_gate = D up (s + silu(gate) (1 - s)).  o = silu(gate) up feeds the
weight gradient; the row sums of z dz, divided by the hidden size, are the statistic of the RMSNorm before
(CODA, arXiv 2605.19269).
dy [M, K], w [K, F] (the down projection), z [M, 2F] of alternating gate, up give dz [M, 2F] alike, o [M, F] and
zdz [M] in float32.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=3,
    dy=Tensor("M K"),
    w=Tensor("K F", scale="K**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    out={"dz": Tensor("M 2F", layout="pairs"), "o": Tensor("M F"), "zdz": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "F": 4096, "K": 4096},
        {"M": 8192, "F": 8192, "K": 8192},
        {"M": 16384, "F": 4096, "K": 4096},
        {"M": 8192, "F": 14336, "K": 4096},
        {"M": 2048, "F": 2048, "K": 2048},
    ],
)
def swiglu_bwd(dy, w, z):
    """dz, the gradient of z through o = silu(gate) * up; o itself; row sums of z * dz."""
    d = dy @ w
    gate, up = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    s = torch.sigmoid(gate)
    d_gate = d * up * (s + gate * s * (1 - s))
    d_up = d * gate * s
    dz = torch.stack((d_gate, d_up), -1).flatten(-2)
    return {"dz": dz, "o": gate * s * up, "zdz": (z * dz).sum(-1)}
