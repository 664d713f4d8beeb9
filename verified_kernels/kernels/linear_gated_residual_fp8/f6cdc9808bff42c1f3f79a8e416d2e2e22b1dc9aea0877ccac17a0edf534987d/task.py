"""A gated residual branch, as in diffusion transformers: y = r + g (x W^T + b), one gate a column.

Peebles and Xie 2022, arXiv 2212.09748.  x [M, K], w [N, K], residual [M, N], gate [N], bias [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    residual=Tensor('M N'),
    gate=Tensor('N'),
    bias=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 1152, 'K': 4608}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_gated_residual_fp8(x, w, x_scale, w_scale, residual, gate, bias):
    """y = residual + gate * (x @ w.T + bias). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': residual + gate * (x @ w.T * x_scale[:, None] * w_scale + bias)}
