"""Deferred RMSNorm: y = rstd_m (h W^T)_mn, where h already carries the norm's weight.

RMSNorm(h) W = r * ((h * gamma) W): the row scale commutes with the product (CODA, arXiv 2605.19269).
h [M, K], w [N, K], rstd [M] in float32 give y [M, N].
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="h @ w.T",
    level=1,
    h=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    out={"y": Tensor("M N")},
    fp8={"h": "rstd", "w": "rstd"},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 6144, "K": 4096},
        {"M": 2048, "N": 2048, "K": 2048},
    ],
)
def rmsnorm_scale(h, w, rstd):
    """y = (h @ w.T) * rstd, one rstd a row."""
    return {"y": (h @ w.T) * rstd[:, None]}
