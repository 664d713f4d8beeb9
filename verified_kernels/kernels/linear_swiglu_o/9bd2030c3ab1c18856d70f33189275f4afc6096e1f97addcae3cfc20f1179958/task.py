"""SwiGLU for inference: o = silu(gate) up of x W^T, and nothing else is written.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] as [gate; up] give o [M, F].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


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
def linear_swiglu_o(x, w):
    """o = silu(gate) * up, where gate and up are the halves of x @ w.T."""
    gate, up = (x @ w.T).chunk(2, -1)
    return {"o": silu(gate) * up}
