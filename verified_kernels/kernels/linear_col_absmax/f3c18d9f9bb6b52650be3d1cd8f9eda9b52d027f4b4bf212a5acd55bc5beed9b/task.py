"""A linear layer with the largest magnitude of each column, for calibrating or quantising by channel.

x [M, K], w [N, K], bias [N] give y [M, N] and absmax [N] in float32.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N"),
    out={"y": Tensor("M N"), "absmax": Tensor("N", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 4096},
    ],
)
def linear_col_absmax(x, w, bias):
    """y = x @ w.T + bias; absmax = each column's largest |y|."""
    y = x @ w.T + bias
    return {"y": y, "absmax": y.float().abs().amax(0)}
