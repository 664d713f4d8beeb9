"""A mixture router with its z-loss: float32 logits with a bias, and the log-sum-exp of each row.

The loss is the mean of lse^2, finished by the caller; the logits go on to the top-k.  Zoph et al. 2022 (ST-MoE),
arXiv 2202.08906.  x [M, K], w [N, K] for N experts, bias [N] in float32 give logits [M, N] and lse [M], in float32.
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
    bias=Tensor('N', 'f32'),
    out={'logits': Tensor('M N', 'f32'), 'lse': Tensor('M', 'f32')},
    workloads=[{'M': 8192, 'N': 128, 'K': 2880}, {'M': 16384, 'N': 128, 'K': 4096}, {'M': 16384, 'N': 256, 'K': 7168}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_zloss_fp8(x, w, x_scale, w_scale, bias):
    """logits = x @ w.T + bias in float32; lse = log(sum(exp(logits))) over each row. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = (x @ w.T * x_scale[:, None] * w_scale).float() + bias
    return {'logits': logits, 'lse': torch.logsumexp(logits, -1)}
