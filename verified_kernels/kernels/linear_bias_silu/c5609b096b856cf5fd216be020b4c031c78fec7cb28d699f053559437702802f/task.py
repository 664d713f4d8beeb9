"""The first layer of a conditioning MLP in a diffusion transformer: y = silu(x W^T + b).

DiT embeds time steps by two linear layers with SiLU between; Peebles and Xie 2022, arXiv 2212.09748.
x [M, K], w [N, K], bias [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import silu


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N"),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 1152, "K": 1152},
    ],
)
def linear_bias_silu(x, w, bias):
    """y = silu(x @ w.T + bias)."""
    return {"y": silu(x @ w.T + bias)}
