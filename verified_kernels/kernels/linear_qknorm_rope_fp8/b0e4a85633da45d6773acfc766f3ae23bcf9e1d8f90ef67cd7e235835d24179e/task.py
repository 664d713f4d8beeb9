"""A query or key projection with QK-norm and rotary embedding: the RMSNorm of each head, then each pair turns.

q = x W^T; z = q rsqrt(mean over the head of q^2 + 1e-6) gamma; (a, b) of z becomes (a cos - b sin, a sin + b cos).
H heads of 128, columns ordered so that pairs are adjacent: x [M, K], w [128H, K], gamma [128H] (a head's weight,
repeated for each head) and table [M, 128H] of alternating cos, sin give y [M, 128H].
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('128H K', scale='K**-0.5', layout='pairs'),
    w_scale=Tensor('128H', 'f32', layout='pairs', low=0.5, high=1.5),
    gamma=Tensor('128H', layout='pairs', low=0.5, high=1.5),
    table=Tensor('M 128H', layout='pairs', low=-1.0, high=1.0),
    out={'y': Tensor('M 128H', layout='pairs')},
    workloads=[{'M': 4096, 'H': 32, 'K': 4096}, {'M': 16384, 'H': 32, 'K': 4096}, {'M': 8192, 'H': 64, 'K': 8192}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_qknorm_rope_fp8(x, w, x_scale, w_scale, gamma, table):
    """RMSNorm of each head (128 columns) of x @ w.T, times gamma; then column pairs turn by the table's angles. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    q = x @ w.T * x_scale[:, None] * w_scale
    heads = q.float().unflatten(-1, (-1, 128))
    rstd = torch.rsqrt(heads.square().mean(-1, keepdim=True) + 1e-06)
    a, b = ((heads * rstd).flatten(-2) * gamma).unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    return {'y': torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)}
