"""A linear layer with the largest magnitude of each row, for quantising its output by token.

x [M, K], w [N, K], bias [N] give y [M, N] and absmax [M] in float32.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N"),
    out={"y": Tensor("M N"), "absmax": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 4096},
    ],
)
def linear_row_absmax(x, w, bias):
    """y = x @ w.T + bias; absmax = each row's largest |y|."""
    y = x @ w.T + bias
    return {"y": y, "absmax": y.float().abs().amax(-1)}
