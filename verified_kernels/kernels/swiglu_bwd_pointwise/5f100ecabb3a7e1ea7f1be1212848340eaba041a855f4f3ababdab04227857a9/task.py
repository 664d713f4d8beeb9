"""Backward of SwiGLU behind the down projection, the gradient alone: D = dy W, then the chain rule.

With s = sigmoid(gate): d_up = D silu(gate), d_gate = D up (s + silu(gate) (1 - s)).
dy [M, K], w [K, F], z [M, 2F] of alternating gate, up give dz [M, 2F] alike.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K F", scale="K**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    out={"dz": Tensor("M 2F", layout="pairs")},
    workloads=[
        {"M": 4096, "F": 4096, "K": 4096},
        {"M": 8192, "F": 8192, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
    ],
)
def swiglu_bwd_pointwise(dy, w, z):
    """dz, the gradient of z through silu(gate) * up."""
    d = dy @ w
    gate, up = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    s = torch.sigmoid(gate)
    d_gate = d * up * (s + gate * s * (1 - s))
    d_up = d * gate * s
    return {"dz": torch.stack((d_gate, d_up), -1).flatten(-2)}
