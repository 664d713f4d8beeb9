"""SwiGLU that keeps its pre-activation for the backward pass: z = x W^T, o = silu(gate) up.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] as [gate; up] give z [M, 2F] as [gate | up] and o [M, F].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    out={"z": Tensor("M 2F", layout="halves"), "o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
        {"M": 16384, "F": 12288, "K": 4096},
    ],
)
def linear_swiglu(x, w):
    """z = x @ w.T; o = silu(gate) * up, where gate and up are the halves of z."""
    z = x @ w.T
    gate, up = z.chunk(2, -1)
    return {"z": z, "o": silu(gate) * up}
