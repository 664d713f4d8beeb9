"""The vocabulary projection with what the cross-entropy needs of each row: target logit and log-sum-exp.

loss_m = lse_m - target_logit_m.  x [M, K], w [N, K], target [M] of columns give logits [M, N], and target_logit and
lse [M] in float32.
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
    target=Tensor('M', 'i64', low=0, high='N'),
    out={'logits': Tensor('M N'), 'target_logit': Tensor('M', 'f32'), 'lse': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 4096, 'N': 32768, 'K': 4096}, {'M': 4096, 'N': 128256, 'K': 4096}, {'M': 2048, 'N': 32768, 'K': 2048}, {'M': 8192, 'N': 32768, 'K': 8192}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_cross_entropy_partial_fp8(x, w, x_scale, w_scale, target):
    """logits = x @ w.T; each row's logit in column target, and its log-sum-exp. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = x @ w.T * x_scale[:, None] * w_scale
    target_logit = logits.float().gather(-1, target[:, None])[:, 0]
    return {'logits': logits, 'target_logit': target_logit, 'lse': torch.logsumexp(logits.float(), -1)}
