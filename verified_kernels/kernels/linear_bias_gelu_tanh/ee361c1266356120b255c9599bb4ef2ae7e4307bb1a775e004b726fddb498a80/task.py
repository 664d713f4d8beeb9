"""First linear layer of an MLP with the tanh form of GELU: y = gelu_tanh(x W^T + b), as in GPT-2 and SigLIP.

Hendrycks and Gimpel 2016, arXiv 1606.08415.  The last shape is the MLP of SigLIP so400m, 1152 to 4304 wide.
x [M, K], w [N, K], bias [N] give y [M, N].
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
        {"M": 16384, "N": 4304, "K": 1152},
    ],
)
def linear_bias_gelu_tanh(x, w, bias):
    """y = gelu(x @ w.T + bias), in its tanh approximation."""
    return {"y": gelu(x @ w.T + bias, approximate="tanh")}
