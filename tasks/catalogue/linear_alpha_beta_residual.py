"""The BLAS form with a residual: y = alpha x W^T + beta r.

x [M, K], w [N, K], r [M, N] and two numbers give y [M, N].
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    residual=Tensor("M N"),
    alpha=Tensor("", low=0.5, high=2.0),
    beta=Tensor("", low=0.25, high=0.75),
    out={"y": Tensor("M N")},
    fp8={"x": "alpha", "w": "alpha"},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 8192, "N": 4096, "K": 14336},
    ],
)
def linear_alpha_beta_residual(x, w, residual, alpha, beta):
    """y = alpha * (x @ w.T) + beta * residual."""
    return {"y": alpha * (x @ w.T) + beta * residual}
