"""Cross-entropy of a vocabulary projection, the loss of each row, without logits in memory.

loss_m = log sum_v exp(logit_mv) - logit_m,target.  Averaging is the caller's, and so are rows to be ignored: a target
outside of the columns leaves the row's loss undefined.
x [M, K], w [N, K] and target [M] of columns give loss [M] in float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task


@program_task(
    x=Tensor("M K"),
    w=Tensor("N K", scale="2 * K**-0.5"),
    target=Tensor("M", "i64", low=0, high="N"),
    stages=(
        product("project", "x @ w.T", reads=("target",), writes=("lse", "picked")),
        finish("loss_of", "lse_minus", reads=("lse", "picked"), writes="loss"),
    ),
    between={"lse": Tensor("M", "f32"), "picked": Tensor("M", "f32")},
    out={"loss": Tensor("M", "f32")},
    workloads=[
        {"M": 16384, "N": 32768, "K": 4096},
        {"M": 4096, "N": 128256, "K": 4096},
        {"M": 8192, "N": 151936, "K": 2048},
    ],
)
def linear_cross_entropy_forward(x, w, target):
    """The cross-entropy of each row of x @ w.T with its target column."""
    return {"loss": torch.nn.functional.cross_entropy((x @ w.T).float(), target, reduction="none")}
