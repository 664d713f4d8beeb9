"""A quantised gate and up projection: one scale a row, one a column, then SwiGLU.

As after 8-bit activations with a scale per token and weights with a scale per output channel (Xiao et al. 2022,
SmoothQuant, arXiv 2211.10438); the last shape is the MLP of Llama 3 8B.
x [M, K], w [2F, K] as [gate; up], row_scale [M] and col_scale [2F] in float32 give o [M, F].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    row_scale=Tensor("M", "f32", low=0.5, high=1.5),
    col_scale=Tensor("2F", "f32", layout="halves", low=0.5, high=1.5),
    out={"o": Tensor("M F")},
    fp8={"x": "row_scale", "w": "col_scale"},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
    ],
)
def linear_scale_swiglu(x, w, row_scale, col_scale):
    """o = silu(gate) * up, where gate and up are the halves of (x @ w.T) * row_scale * col_scale."""
    gate, up = ((x @ w.T) * row_scale[:, None] * col_scale).chunk(2, -1)
    return {"o": silu(gate) * up}
