"""Backward of GEGLU in the tanh form, behind the down projection: D = dy W, then the chain rule; o recomputed.

d_up = D gelu(gate), d_gate = D up gelu'(gate); o = gelu(gate) up feeds the weight gradient.  Shazeer 2020,
arXiv 2002.05202; the last shape is Gemma 2 9B.
dy [M, K], w [K, F] (the down projection), z [M, 2F] of alternating gate, up give dz [M, 2F] alike and o [M, F].
"""

import math

import torch
from codasmith.tasks import Tensor, task
from torch.nn.functional import gelu


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K F", scale="K**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    out={"dz": Tensor("M 2F", layout="pairs"), "o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 4096, "K": 4096},
        {"M": 8192, "F": 8192, "K": 8192},
        {"M": 8192, "F": 14336, "K": 3584},
    ],
)
def geglu_bwd(dy, w, z):
    """dz, the gradient of z through o = gelu(gate) * up in the tanh form; o itself."""
    d = dy @ w
    gate, up = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    t = torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))
    slope = 0.5 * (1 + t) + 0.5 * gate * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * gate**2)
    activated = gelu(gate, approximate="tanh")
    dz = torch.stack((d * up * slope, d * activated), -1).flatten(-2)
    return {"dz": dz, "o": activated * up}
