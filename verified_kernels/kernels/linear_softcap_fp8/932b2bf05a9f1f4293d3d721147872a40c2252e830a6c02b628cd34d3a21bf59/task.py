"""Logits limited smoothly, as in Gemma 2: y = cap tanh(x W^T / cap).

x [M, K], w [N, K] and a number give y [M, N].  The weights are drawn so that logits reach past the cap.
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=1,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='16 * K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    cap=Tensor('', low=10.0, high=30.0),
    out={'y': Tensor('M N')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 4096, 'N': 32768, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_softcap_fp8(x, w, x_scale, w_scale, cap):
    """y = cap * tanh((x @ w.T) / cap). Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    return {'y': cap * torch.tanh(x @ w.T * x_scale[:, None] * w_scale / cap)}
