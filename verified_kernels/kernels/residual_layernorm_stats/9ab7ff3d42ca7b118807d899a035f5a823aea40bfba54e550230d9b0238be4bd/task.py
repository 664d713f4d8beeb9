"""The producer of a deferred LayerNorm: the residual stream, and each row's sum and sum of squares.

x [M, K], w [N, K], residual [M, N] give h [M, N], and sums and sumsq [M] in float32.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    residual=Tensor("M N"),
    out={"h": Tensor("M N"), "sums": Tensor("M", "f32"), "sumsq": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 4096},
    ],
)
def residual_layernorm_stats(x, w, residual):
    """h = x @ w.T + residual; sums and sumsq = row sums of h and h^2."""
    h = x @ w.T + residual
    return {"h": h, "sums": h.float().sum(-1), "sumsq": h.float().square().sum(-1)}
