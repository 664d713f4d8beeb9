"""The step sizes of a selective state space model: delta = softplus(x W^T + b), from a low-rank projection.

Gu and Dao 2023 (Mamba), arXiv 2312.00752.  The last shape is Falcon Mamba 7B: rank 256, inner width 8192.
x [M, K], w [N, K], bias [N] in float32 give delta [M, N].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import softplus


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N", "f32", low=-4.0, high=1.0),
    out={"delta": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 8192, "K": 256},
    ],
)
def linear_bias_softplus(x, w, bias):
    """delta = softplus(x @ w.T + bias)."""
    return {"delta": softplus(x @ w.T + bias)}
