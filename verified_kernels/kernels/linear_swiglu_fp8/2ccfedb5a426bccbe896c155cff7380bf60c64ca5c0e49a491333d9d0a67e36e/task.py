"""SwiGLU that keeps its pre-activation for the backward pass: z = x W^T, o = silu(gate) up.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] as [gate; up] give z [M, 2F] of alternating gate, up (as
swiglu_bwd takes it) and o [M, F].
"""

import torch

from codasmith.tasks import Tensor, task

from torch.nn.functional import silu

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('2F K', scale='K**-0.5', layout='halves'),
    w_scale=Tensor('2F', 'f32', layout='halves', low=0.5, high=1.5),
    out={'z': Tensor('M 2F', layout='pairs'), 'o': Tensor('M F')},
    workloads=[{'M': 4096, 'F': 2048, 'K': 4096}, {'M': 8192, 'F': 4096, 'K': 8192}, {'M': 8192, 'F': 14336, 'K': 4096}, {'M': 16384, 'F': 12288, 'K': 4096}, {'M': 2048, 'F': 1024, 'K': 2048}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_swiglu_fp8(x, w, x_scale, w_scale):
    """gate and up are the halves of x @ w.T; z alternates their columns; o = silu(gate) * up. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    gate, up = (x @ w.T * x_scale[:, None] * w_scale).chunk(2, -1)
    return {'z': torch.stack((gate, up), -1).flatten(-2), 'o': silu(gate) * up}
