"""The output gate of linear attention: y = o silu(x W^T), as in RetNet, gated linear attention and Mamba 2.

Sun et al. 2023, arXiv 2307.08621; Yang et al. 2023, arXiv 2312.06635.
x [M, K], w [N, K], o [M, N] (what attention gave, normalised) give y [M, N].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    o=Tensor("M N"),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 2048},
    ],
)
def linear_silu_gate(x, w, o):
    """y = o * silu(x @ w.T)."""
    return {"y": o * silu(x @ w.T)}
