"""A linear layer with SiLU: y = z sigmoid(z), z = x W^T.

x [M, K], w [N, K] give y [M, N].  The weights are drawn wide enough that SiLU bends.
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 1024},
    ],
)
def linear_silu(x, w):
    """y = silu(x @ w.T)."""
    return {"y": silu(x @ w.T)}
