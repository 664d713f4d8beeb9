"""What PPO and GRPO need of logits beside a stored log-sum-exp: the expected logit and the taken token's, none stored.

entropy_m = lse_m - expected_m with expected_m = sum_n exp(l_mn - lse_m) l_mn and l = x W^T; the token's log-probability
is target_logit_m - lse_m.  A probability above 1, which a log-sum-exp rounded elsewhere could give, is cut to 1.
Schulman et al. 2017, arXiv 1707.06347; the last shape is Qwen3 8B with its 151936 tokens.
x [M, K], w [N, K], lse [M] in float32 and target [M] of columns give expected and target_logit [M] in float32.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    lse=Tensor("M", "f32", low=0.0, high=4.0),
    target=Tensor("M", "i64", low=0, high="N"),
    out={"expected": Tensor("M", "f32"), "target_logit": Tensor("M", "f32")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 4096, "N": 32768, "K": 4096},
        {"M": 4096, "N": 151936, "K": 4096},
    ],
)
def linear_entropy(x, w, lse, target):
    """Of logits = x @ w.T: row sums of min(exp(logits - lse), 1) * logits; each row's logit in column target."""
    logits = (x @ w.T).float()
    probability = torch.exp((logits - lse[:, None]).clamp(max=0))
    return {"expected": (probability * logits).sum(-1), "target_logit": logits.gather(-1, target[:, None])[:, 0]}
