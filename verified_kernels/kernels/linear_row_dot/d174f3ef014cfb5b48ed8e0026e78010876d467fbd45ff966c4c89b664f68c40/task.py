"""A gradient with the row statistic that the RMSNorm before it needs: grad_y = dy W, and row sums of y grad_y.

Divided by the hidden size, ydy is the s of residual_rmsnorm_bwd, moved to the kernel that produces grad_y (CODA,
arXiv 2605.19269).  dy [M, K], w [K, N], y [M, N] give grad_y [M, N] and ydy [M] in float32.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=3,
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    y=Tensor("M N"),
    out={"grad_y": Tensor("M N"), "ydy": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 6144, "K": 4096},
    ],
)
def linear_row_dot(dy, w, y):
    """grad_y = dy @ w; ydy = row sums of y * grad_y."""
    grad_y = dy @ w
    return {"grad_y": grad_y, "ydy": (y.float() * grad_y.float()).sum(-1)}
