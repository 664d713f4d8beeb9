"""Rotary embedding of a projection with the angles computed in the kernel: angle = position_m frequency_j.

No table of M x N is read.  Su et al. 2021, arXiv 2104.09864.  x [M, K], w [N, K] with rows ordered so that pairs are
adjacent, positions [M] in float32, frequencies [N] in float32 with the frequency of each pair standing twice (the
first of each two counts) give y [M, N].  Kernels are checked with positions up to 2048 and frequencies up to 1: for
longer contexts hold one against a table first (linear_rope).
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5', layout='pairs'),
    w_scale=Tensor('N', 'f32', layout='pairs', low=0.5, high=1.5),
    positions=Tensor('M', 'f32', low=0.0, high=2048.0),
    frequencies=Tensor('N', 'f32', layout='pairs', low=0.0, high=1.0),
    out={'y': Tensor('M N', layout='pairs')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 4096, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_rope_positions_fp8(x, w, x_scale, w_scale, positions, frequencies):
    """Turn adjacent column pairs of x @ w.T by the angle position * frequency. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    a, b = (x @ w.T * x_scale[:, None] * w_scale).unflatten(-1, (-1, 2)).unbind(-1)
    angle = positions[:, None] * frequencies.unflatten(-1, (-1, 2))[:, 0]
    cos, sin = (torch.cos(angle), torch.sin(angle))
    return {'y': torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)}
