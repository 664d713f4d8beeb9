"""A projection back into the residual stream, with a bias: y = r + x W^T + b, as in GPT-2, BERT and ViT.

x [M, K], w [N, K], bias [N], residual [M, N] give y [M, N].  The last shape is the second MLP layer of GPT-2 XL.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N"),
    residual=Tensor("M N"),
    out={"y": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 1600, "K": 6400},
    ],
)
def linear_bias_residual(x, w, bias, residual):
    """y = residual + x @ w.T + bias."""
    return {"y": residual + (x @ w.T + bias)}
