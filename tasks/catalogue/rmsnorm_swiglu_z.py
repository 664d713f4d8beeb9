"""Deferred RMSNorm, then SwiGLU, with the scaled pre-activation stored for the backward pass.

z = (x W^T) rstd, o = silu(gate) up; CODA, arXiv 2605.19269.  x [M, K], w [2F, K] as [gate; up], rstd [M] in
float32 give z [M, 2F] of alternating gate, up and o [M, F].
"""

import torch
from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    out={"z": Tensor("M 2F", layout="pairs"), "o": Tensor("M F")},
    fp8={"x": "rstd", "w": "rstd"},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
        {"M": 2048, "F": 1024, "K": 2048},
    ],
)
def rmsnorm_swiglu_z(x, w, rstd):
    """gate and up are the halves of (x @ w.T) * rstd; z alternates their columns; o = silu(gate) * up."""
    gate, up = ((x @ w.T) * rstd[:, None]).chunk(2, -1)
    return {"z": torch.stack((gate, up), -1).flatten(-2), "o": silu(gate) * up}
