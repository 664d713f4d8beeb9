"""A gate: y = sigmoid(x W^T), as in gated attention and mixture routing.

x [M, K], w [N, K] give y [M, N].
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='2 * K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4096, 'K': 2048}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_sigmoid_fp8(x, w, x_scale, w_scale):
    """y = sigmoid(x @ w.T). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': torch.sigmoid(x @ w.T * x_scale[:, None] * w_scale)}
