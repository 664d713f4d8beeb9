"""A plain linear layer: y = x W^T + b.

x [M, K], w [N, K], b [N] give y [M, N].  Qwen2's QKV projection has this form.
"""

from codasmith.tasks import Tensor, task


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
        {"M": 16384, "N": 4608, "K": 3584},
    ],
)
def linear_bias(x, w, bias):
    """y = x @ w.T + bias."""
    return {"y": x @ w.T + bias}
