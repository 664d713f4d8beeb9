"""SwiGLU that keeps its pre-activation for the backward pass: z = x W^T, o = silu(gate) up.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] as [gate; up] give z [M, 2F] of alternating gate, up (as
swiglu_bwd takes it) and o [M, F].
"""

import torch
from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    out={"z": Tensor("M 2F", layout="pairs"), "o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
        {"M": 16384, "F": 12288, "K": 4096},
        {"M": 2048, "F": 1024, "K": 2048},
    ],
)
def linear_swiglu(x, w):
    """gate and up are the halves of x @ w.T; z alternates their columns; o = silu(gate) * up."""
    gate, up = (x @ w.T).chunk(2, -1)
    return {"z": torch.stack((gate, up), -1).flatten(-2), "o": silu(gate) * up}
