"""Deferred RMSNorm, then GEGLU in the tanh form: o = gelu(gate) up of (x W^T) rstd, the MLP of Gemma.

Gemma Team 2024, arXiv 2408.00118; the last shape is Gemma 2 9B, 3584 to 14336 wide.
x [M, K] (already times the norm's weight), w [2F, K] as [gate; up], rstd [M] in float32 give o [M, F].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import gelu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    out={"o": Tensor("M F")},
    fp8={"x": "rstd", "w": "rstd"},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 3584},
    ],
)
def rmsnorm_geglu(x, w, rstd):
    """Deferred RMSNorm scale, then GEGLU."""
    gate, up = ((x @ w.T) * rstd[:, None]).chunk(2, -1)
    return {"o": gelu(gate, approximate="tanh") * up}
