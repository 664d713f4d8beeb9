"""ReGLU: o = max(gate, 0) up of x W^T.

Shazeer 2020, arXiv 2002.05202.  x [M, K], w [2F, K] as [gate; up] give o [M, F].
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('2F K', scale='K**-0.5', layout='halves'),
    w_scale=Tensor('2F', 'f32', layout='halves', low=0.5, high=1.5),
    out={'o': Tensor('M F')},
    workloads=[{'M': 4096, 'F': 2048, 'K': 4096}, {'M': 8192, 'F': 4096, 'K': 8192}, {'M': 8192, 'F': 14336, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_reglu_fp8(x, w, x_scale, w_scale):
    """o = relu(gate) * up, where gate and up are the halves of x @ w.T. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    gate, up = (x @ w.T * x_scale[:, None] * w_scale).chunk(2, -1)
    return {'o': torch.relu(gate) * up}
