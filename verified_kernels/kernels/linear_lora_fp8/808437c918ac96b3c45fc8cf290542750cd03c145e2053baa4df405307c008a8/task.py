"""A linear layer with low-rank adapters, one scale a row: y = x W^T + s_m delta_mn.

Rows of one batch may use different adapters; delta = (x A^T) B^T comes from a small product before, and s is the
adapter's alpha / rank.  Hu et al. 2021, arXiv 2106.09685.  x [M, K], w [N, K], delta [M, N], scale [M] in float32 give
y [M, N].
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    delta=Tensor('M N'),
    scale=Tensor('M', 'f32', low=0.5, high=2.0),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 8192, 'N': 6144, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_lora_fp8(x, w, x_scale, w_scale, delta, scale):
    """y = x @ w.T + scale * delta, one scale a row. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': x @ w.T * x_scale[:, None] * w_scale + scale[:, None] * delta}
