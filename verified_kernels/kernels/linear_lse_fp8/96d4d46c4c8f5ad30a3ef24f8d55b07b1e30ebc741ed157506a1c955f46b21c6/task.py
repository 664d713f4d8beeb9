"""Logits with the log-sum-exp of each row, for sampling, distillation and z-losses.

x [M, K], w [N, K] give logits [M, N] and lse [M] in float32.
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='2 * K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    out={'logits': Tensor('M N'), 'lse': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 8192, 'N': 8192, 'K': 8192}, {'M': 4096, 'N': 32768, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_lse_fp8(x, w, x_scale, w_scale):
    """logits = x @ w.T; lse = log(sum(exp(logits))) over each row. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = x @ w.T * x_scale[:, None] * w_scale
    return {'logits': logits, 'lse': torch.logsumexp(logits.float(), -1)}
