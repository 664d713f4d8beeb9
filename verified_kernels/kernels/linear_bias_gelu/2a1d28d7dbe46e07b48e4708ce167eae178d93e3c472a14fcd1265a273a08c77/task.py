"""First linear layer of a GELU MLP (BERT, GPT-2, ViT): y = gelu(x W^T + b), the exact GELU.

x [M, K], w [N, K], b [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task
from torch.nn.functional import gelu


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
        {"M": 16384, "N": 4096, "K": 1024},
    ],
)
def linear_bias_gelu(x, w, bias):
    """y = gelu(x @ w.T + bias), with the exact (erf) GELU."""
    return {"y": gelu(x @ w.T + bias)}
