"""A residual branch whose gate is a tile of its own: y = residual + sigmoid(gate) (x W^T).

The gate's logits come from a product of their own, as in highway networks and gated transformers (Srivastava et al.
2015, arXiv 1505.00387; Parisotto et al. 2019, arXiv 1910.06764).
x [M, K], w [N, K], residual [M, N], gate [M, N] give y [M, N].
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=2,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    residual=Tensor('M N'),
    gate=Tensor('M N'),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 8192, 'N': 4096, 'K': 14336}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_sigmoid_gated_residual_fp8(x, w, x_scale, w_scale, residual, gate):
    """y = residual + sigmoid(gate) * (x @ w.T). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': residual + torch.sigmoid(gate) * (x @ w.T * x_scale[:, None] * w_scale)}
