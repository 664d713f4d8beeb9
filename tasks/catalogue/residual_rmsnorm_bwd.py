"""Backward of a residual RMSNorm behind the next product: D = dy W, grad_h = (D gamma - c s) rstd + residual_grad.

With c = h rstd and s_m = (1/d) sum_o y grad_y, reduced by the kernel that produced dy (CODA, arXiv 2605.19269).
c gamma is emitted again for the weight gradient; grad_gamma_n = sum_m D c.
dy [M, K], w [K, N], h [M, N], gamma [N], rstd and s [M] in float32, residual_grad [M, N] give grad_h [M, N],
c_gamma [M, N] and grad_gamma [N] in float32.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=3,
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    h=Tensor("M N"),
    gamma=Tensor("N", low=0.5, high=1.5),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    s=Tensor("M", "f32", scale=0.5),
    residual_grad=Tensor("M N"),
    out={"grad_h": Tensor("M N"), "c_gamma": Tensor("M N"), "grad_gamma": Tensor("N", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 4096},
        {"M": 2048, "N": 2048, "K": 2048},
    ],
)
def residual_rmsnorm_bwd(dy, w, h, gamma, rstd, s, residual_grad):
    """grad_h through the norm plus residual_grad; the normed h times gamma; the gradient of gamma."""
    d = dy @ w
    c = h * rstd[:, None]
    grad_h = (d * gamma - c * s[:, None]) * rstd[:, None] + residual_grad
    return {"grad_h": grad_h, "c_gamma": c * gamma, "grad_gamma": (d * c).sum(0)}
