"""A gated residual branch, as in diffusion transformers: y = r + g (x W^T + b), one gate a column.

Peebles and Xie 2022, arXiv 2212.09748.  x [M, K], w [N, K], residual [M, N], gate [N], bias [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    residual=Tensor("M N"),
    gate=Tensor("N"),
    bias=Tensor("N"),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 1152, "K": 4608},
    ],
)
def linear_gated_residual(x, w, residual, gate, bias):
    """y = residual + gate * (x @ w.T + bias)."""
    return {"y": residual + gate * (x @ w.T + bias)}
