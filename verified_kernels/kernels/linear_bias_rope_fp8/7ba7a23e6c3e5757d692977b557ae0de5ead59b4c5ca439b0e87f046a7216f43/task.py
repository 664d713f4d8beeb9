"""A query or key projection with a bias, then rotary embedding from a table, as in Qwen 2 and 2.5.

Each pair of columns (a, b) of x W^T + b becomes (a cos - b sin, a sin + b cos); Su et al. 2021, arXiv 2104.09864; Qwen
Team 2024, arXiv 2412.15115.  The last shape is the queries of Qwen2.5 7B.
x [M, K], w [N, K] and bias [N] with pairs adjacent, table [M, N] of alternating cos, sin give y [M, N].
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
    bias=Tensor('N', layout='pairs'),
    table=Tensor('M N', layout='pairs', low=-1.0, high=1.0),
    out={'y': Tensor('M N', layout='pairs')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 16384, 'N': 3584, 'K': 3584}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_bias_rope_fp8(x, w, x_scale, w_scale, bias, table):
    """Turn adjacent column pairs of x @ w.T + bias by the angles whose cos and sin alternate in table. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    a, b = (x @ w.T * x_scale[:, None] * w_scale + bias).unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    return {'y': torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)}
