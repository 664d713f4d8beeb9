"""The vocabulary projection of Gemma 2: soft-capped logits, each row's target logit and log-sum-exp.

logits = cap tanh(x W^T / cap); loss_m = lse_m - target_logit_m.  Gemma Team 2024, arXiv 2408.00118; the last shape is
Gemma 2 9B with its 256000 tokens.
x [M, K], w [N, K], a number, target [M] of columns give logits [M, N], and target_logit and lse [M] in float32.
"""

import torch

from codasmith.tasks import Tensor, task

@task(
    gemm='x @ w.T',
    level=3,
    x=Tensor('M K'),
    x_scale=Tensor('M', 'f32', low=0.5, high=1.5),
    w=Tensor('N K', scale='4 * K**-0.5'),
    w_scale=Tensor('N', 'f32', low=0.5, high=1.5),
    cap=Tensor('', low=4.0, high=8.0),
    target=Tensor('M', 'i64', low=0, high='N'),
    out={'logits': Tensor('M N'), 'target_logit': Tensor('M', 'f32'), 'lse': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 4096, 'N': 32768, 'K': 4096}, {'M': 2048, 'N': 256000, 'K': 3584}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def softcap_cross_entropy_fp8(x, w, x_scale, w_scale, cap, target):
    """logits = cap * tanh((x @ w.T) / cap); each row's logit in column target, and its log-sum-exp. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = cap * torch.tanh(x @ w.T * x_scale[:, None] * w_scale / cap)
    target_logit = logits.float().gather(-1, target[:, None])[:, 0]
    return {'logits': logits, 'target_logit': target_logit, 'lse': torch.logsumexp(logits.float(), -1)}
