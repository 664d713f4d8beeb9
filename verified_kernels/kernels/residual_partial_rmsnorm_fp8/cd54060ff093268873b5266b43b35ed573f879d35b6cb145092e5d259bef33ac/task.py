"""The producer of a deferred RMSNorm: residual stream, its product with the norm's weight, and row sums of squares.

h = x W^T + r; g = h * gamma goes into the next product; rstd follows from sumsq (CODA, arXiv 2605.19269).
x [M, K], w [N, K], r [M, N], gamma [N] give h [M, N], g [M, N] and sumsq [M] in float32.
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
    gamma=Tensor('N', low=0.5, high=1.5),
    out={'h': Tensor('M N'), 'g': Tensor('M N'), 'sumsq': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 4096, 'K': 14336}, {'M': 2048, 'N': 2048, 'K': 2048}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def residual_partial_rmsnorm_fp8(x, w, x_scale, w_scale, residual, gamma):
    """h = x @ w.T + residual; g = h * gamma; sumsq = row sums of h^2. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    h = x @ w.T * x_scale[:, None] * w_scale + residual
    return {'h': h, 'g': h * gamma, 'sumsq': h.float().square().sum(-1)}
