"""A product with a scale per row, a scale per column and a bias, as after quantised activations and weights.

y_mn = a_m b_n (x W^T)_mn + c_n.  x [M, K], w [N, K], row_scale [M] and col_scale [N] in float32, bias [N] give
y [M, N].
"""

from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=1,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    row_scale=Tensor("M", "f32", low=0.5, high=1.5),
    col_scale=Tensor("N", "f32", low=0.5, high=1.5),
    bias=Tensor("N"),
    out={"y": Tensor("M N")},
    fp8={"x": "row_scale", "w": "col_scale"},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 6144, "K": 4096},
    ],
)
def linear_scale_bias(x, w, row_scale, col_scale, bias):
    """y = (x @ w.T) * row_scale * col_scale + bias."""
    return {"y": (x @ w.T) * row_scale[:, None] * col_scale + bias}
