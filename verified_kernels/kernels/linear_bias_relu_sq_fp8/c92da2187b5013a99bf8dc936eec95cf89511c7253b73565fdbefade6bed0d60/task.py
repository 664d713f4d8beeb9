"""Squared ReLU with a bias: y = max(x W^T + b, 0)^2.

So et al. 2021 (Primer), arXiv 2109.08668; Nemotron-4 uses it.  x [M, K], w [N, K], b [N] give y [M, N].
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    bias=Tensor('N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 8192, 'N': 24576, 'K': 6144}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_relu_sq_fp8(x, w, x_scale, w_scale, bias):
    """y = relu(x @ w.T + bias) squared. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': torch.relu(x @ w.T * x_scale[:, None] * w_scale + bias).square()}
