"""The producer of a deferred LayerNorm: the residual stream, and each row's sum and sum of squares.

x [M, K], w [N, K], residual [M, N] give h [M, N], and sums and sumsq [M] in float32.
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    residual=Tensor('M N'),
    out={'h': Tensor('M N'), 'sums': Tensor('M', 'f32'), 'sumsq': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4096, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def residual_layernorm_stats_fp8(x, w, x_scale, w_scale, residual):
    """h = x @ w.T + residual; sums and sumsq = row sums of h and h^2. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    h = x @ w.T * x_scale[:, None] * w_scale + residual
    return {'h': h, 'sums': h.float().sum(-1), 'sumsq': h.float().square().sum(-1)}
