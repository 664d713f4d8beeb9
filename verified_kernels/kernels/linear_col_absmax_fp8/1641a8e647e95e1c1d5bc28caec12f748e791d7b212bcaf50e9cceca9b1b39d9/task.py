"""A linear layer with the largest magnitude of each column, for calibrating or quantising by channel.

x [M, K], w [N, K], bias [N] give y [M, N] and absmax [N] in float32.
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    bias=Tensor('N'),
    out={'y': Tensor('M N'), 'absmax': Tensor('N', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4096, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_col_absmax_fp8(x, w, x_scale, w_scale, bias):
    """y = x @ w.T + bias; absmax = each column's largest |y|. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    y = x @ w.T * x_scale[:, None] * w_scale + bias
    return {'y': y, 'absmax': y.float().abs().amax(0)}
