"""GEGLU with a bias: o = gelu(gate) up of x W^T + b, with the tanh form of GELU that T5 and Gemma use.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] and bias [2F] as [gate; up] give o [M, F].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import gelu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    bias=Tensor("2F", layout="halves"),
    out={"o": Tensor("M F")},
    workloads=[
        {"M": 4096, "F": 2048, "K": 4096},
        {"M": 8192, "F": 4096, "K": 8192},
        {"M": 8192, "F": 14336, "K": 4096},
    ],
)
def linear_geglu_bias(x, w, bias):
    """o = gelu(gate) * up, where gate and up are the halves of x @ w.T + bias."""
    gate, up = (x @ w.T + bias).chunk(2, -1)
    return {"o": gelu(gate, approximate="tanh") * up}
