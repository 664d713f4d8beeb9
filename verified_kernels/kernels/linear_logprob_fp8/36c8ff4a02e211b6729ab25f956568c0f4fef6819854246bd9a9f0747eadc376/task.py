"""The log-probability of given tokens at a temperature, without logits in memory, as in PPO and GRPO.

log p_m = target_logit_m - lse_m of the logits x W^T / T.  Shao et al. 2024, arXiv 2402.03300; the last shape is Qwen3
8B with its 151936 tokens.
x [M, K], w [N, K], the number 1/T, target [M] of columns give target_logit and lse [M] in float32.
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
    inverse_temperature=Tensor('', low=0.5, high=2.0),
    target=Tensor('M', 'i64', low=0, high='N'),
    out={'target_logit': Tensor('M', 'f32'), 'lse': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 4096, 'N': 32768, 'K': 4096}, {'M': 4096, 'N': 151936, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_logprob_fp8(x, w, x_scale, w_scale, inverse_temperature, target):
    """Of logits = (x @ w.T) * inverse_temperature: each row's logit in column target, and its log-sum-exp. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = (x @ w.T * x_scale[:, None] * w_scale).float() * inverse_temperature
    return {'target_logit': logits.gather(-1, target[:, None])[:, 0], 'lse': torch.logsumexp(logits, -1)}
