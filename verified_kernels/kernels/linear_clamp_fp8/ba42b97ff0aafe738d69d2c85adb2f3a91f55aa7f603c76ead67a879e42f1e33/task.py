"""A projection with clipped outputs, as the clip_qkv of DBRX and OLMo: y = clamp(x W^T, low, high).

x [M, K], w [N, K] and two numbers give y [M, N].
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
    low=Tensor('', low=-1.5, high=-0.5),
    high=Tensor('', low=0.5, high=1.5),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 8192, 'N': 8192, 'K': 6144}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_clamp_fp8(x, w, x_scale, w_scale, low, high):
    """y = x @ w.T limited to [low, high]. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': torch.clamp(x @ w.T * x_scale[:, None] * w_scale, low, high)}
