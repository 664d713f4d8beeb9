"""Cross-entropy of a vocabulary projection in training: the loss of each row; logits and log-sum-exp are kept.

loss_m = log sum_v exp(logit_mv) - logit_m,target.  Averaging is the caller's, and so are rows to be ignored: a target
outside of the columns leaves the row's loss undefined.
x [M, K], w [N, K] and target [M] of columns give loss [M] in float32 and, for the backward pass, logits [M, N] and
lse [M] in float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task


@program_task(
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    target=Tensor("M", "i64", low=0, high="N"),
    stages=(
        product("project", "x @ w.T", reads=("target",), writes=("logits", "lse", "picked")),
        finish("loss_of", "lse_minus", reads=("lse", "picked"), writes="loss"),
    ),
    between={"picked": Tensor("M", "f32")},
    out={"loss": Tensor("M", "f32"), "logits": Tensor("M N"), "lse": Tensor("M", "f32")},
    workloads=[
        {"M": 16384, "N": 32768, "K": 4096},
        {"M": 4096, "N": 128256, "K": 4096},
        {"M": 8192, "N": 151936, "K": 2048},
    ],
)
def linear_cross_entropy(x, w, target):
    """The cross-entropy of each row of logits = x @ w.T with its target column; logits; their log-sum-exp."""
    logits = x @ w.T
    loss = torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")
    return {"loss": loss, "logits": logits, "lse": torch.logsumexp(logits.float(), -1)}
