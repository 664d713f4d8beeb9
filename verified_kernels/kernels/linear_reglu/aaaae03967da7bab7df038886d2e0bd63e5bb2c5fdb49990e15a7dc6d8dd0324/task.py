"""ReGLU: o = max(gate, 0) up of x W^T.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] as [gate; up] give o [M, F].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    out={"o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
    ],
)
def linear_reglu(x, w):
    """o = relu(gate) * up, where gate and up are the halves of x @ w.T."""
    gate, up = (x @ w.T).chunk(2, -1)
    return {"o": torch.relu(gate) * up}
