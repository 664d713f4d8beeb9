"""A weight gradient added to a float32 accumulator in place: dW += dy^T x, as in gradient accumulation.

dy [K, M] and x [K, N] over K tokens, dw [M, N] in float32 give dw [M, N], changed in place.
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="dy.T @ x",
    level=2,
    dy=Tensor("K M", scale="K**-0.5"),
    x=Tensor("K N"),
    dw=Tensor("M N", "f32"),
    out={"dw": Tensor("M N", "f32")},
    accumulates="dw",
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 4096, "N": 14336, "K": 8192},
    ],
)
def linear_accumulate(dy, x, dw):
    """dw + dy.T @ x."""
    return {"dw": dw + dy.T @ x}
