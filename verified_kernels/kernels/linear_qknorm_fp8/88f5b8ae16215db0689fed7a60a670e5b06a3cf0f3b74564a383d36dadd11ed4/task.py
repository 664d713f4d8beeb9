"""A query or key projection with QK-norm: each head of 128 columns is divided by its root mean square, times a weight.

y = q rsqrt(mean over the head of q^2 + 1e-6) gamma, with q = x W^T; Henry et al. 2020, arXiv 2010.04245, in the RMSNorm
form of Qwen3 and Gemma 3.  H heads of 128: x [M, K], w [128H, K] and gamma [128H] (a head's weight, repeated for each
head) give y [M, 128H].
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('128H K', scale='K**-0.5'),
    w_scale=Tensor('128H', 'f32', low=0.5, high=1.5),
    gamma=Tensor('128H', low=0.5, high=1.5),
    out={'y': Tensor('M 128H')},
    workloads=[{'M': 4096, 'H': 32, 'K': 4096}, {'M': 16384, 'H': 32, 'K': 4096}, {'M': 8192, 'H': 64, 'K': 8192}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_qknorm_fp8(x, w, x_scale, w_scale, gamma):
    """RMSNorm of each head (128 columns) of x @ w.T with epsilon 1e-6, times gamma. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    q = x @ w.T * x_scale[:, None] * w_scale
    heads = q.float().unflatten(-1, (-1, 128))
    rstd = torch.rsqrt(heads.square().mean(-1, keepdim=True) + 1e-06)
    return {'y': (heads * rstd).flatten(-2) * gamma}
