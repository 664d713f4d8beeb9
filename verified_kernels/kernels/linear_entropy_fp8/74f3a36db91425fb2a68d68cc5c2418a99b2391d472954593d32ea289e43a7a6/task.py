"""What PPO and GRPO need of logits beside a stored log-sum-exp: the expected logit and the taken token's, none stored.

entropy_m = lse_m - expected_m with expected_m = sum_n exp(l_mn - lse_m) l_mn and l = x W^T; the token's log-probability
is target_logit_m - lse_m.  A probability above 1, which a log-sum-exp rounded elsewhere could give, is cut to 1.
Schulman et al. 2017, arXiv 1707.06347; the last shape is Qwen3 8B with its 151936 tokens.
x [M, K], w [N, K], lse [M] in float32 and target [M] of columns give expected and target_logit [M] in float32.
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
    lse=Tensor('M', 'f32', low=0.0, high=4.0),
    target=Tensor('M', 'i64', low=0, high='N'),
    out={'expected': Tensor('M', 'f32'), 'target_logit': Tensor('M', 'f32')},
    workloads=[{'M': 4096, 'N': 4096, 'K': 4096}, {'M': 4096, 'N': 32768, 'K': 4096}, {'M': 4096, 'N': 151936, 'K': 4096}],
    fp8={'x': 'x_scale', 'w': 'w_scale'},
)
def linear_entropy_fp8(x, w, x_scale, w_scale, lse, target):
    """Of logits = x @ w.T: row sums of min(exp(logits - lse), 1) * logits; each row's logit in column target. Here x @ w.T is that of fp8 operands, times x_scale and w_scale, a scale for each of their rows."""
    logits = (x @ w.T * x_scale[:, None] * w_scale).float()
    probability = torch.exp((logits - lse[:, None]).clamp(max=0))
    return {'expected': (probability * logits).sum(-1), 'target_logit': logits.gather(-1, target[:, None])[:, 0]}
