"""Deferred RMSNorm, then SwiGLU: o = silu(gate) up of (x W^T) rstd, as in the MLP of Llama, Qwen and Mistral.

x [M, K] (already times the norm's weight), w [2F, K] as [gate; up], rstd [M] in float32 give o [M, F].
CODA, arXiv 2605.19269.
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


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
        {"M": 8192, "F": 14336, "K": 4096},
        {"M": 16384, "F": 2048, "K": 4096},
        {"M": 2048, "F": 1024, "K": 2048},
    ],
)
def rmsnorm_swiglu(x, w, rstd):
    """Deferred RMSNorm scale, then SwiGLU."""
    gate, up = ((x @ w.T) * rstd[:, None]).chunk(2, -1)
    return {"o": silu(gate) * up}
