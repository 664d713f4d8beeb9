"""Deferred adaptive LayerNorm, as in diffusion transformers: normalise and modulate x after the product.

With W' = W (1 + scale): (LayerNorm(x) (1 + scale) + shift) W^T + b = rstd (x W'^T - mean u) + v, where u_n are
the row sums of W' and v = shift W^T + b.  Peebles and Xie 2022, arXiv 2212.09748.
x [M, K], w = W' [N, K], mean and rstd [M] in float32, u [N] in float32, v [N] give y [M, N].
"""

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    mean=Tensor('M', 'f32', scale=0.5),
    rstd=Tensor('M', 'f32', low=0.5, high=1.5),
    u=Tensor('N', 'f32'),
    v=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4608, 'K': 1152}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_adaln_fp8(x, w, x_scale, w_scale, mean, rstd, u, v):
    """y = rstd * (x @ w.T - mean * u) + v. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': rstd[:, None] * (x @ w.T * x_scale[:, None] * w_scale - mean[:, None] * u) + v}
