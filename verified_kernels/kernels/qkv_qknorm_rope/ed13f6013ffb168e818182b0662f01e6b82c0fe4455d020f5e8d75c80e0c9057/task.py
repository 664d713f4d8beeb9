"""Queries, keys and values in one product: QK-norm and rotary embedding for the first two, the third as it is.

z = q (r gamma + plain) with q = x W^T and r = rsqrt(mean over the head of q^2 + eps); then each pair (a, b) of z
becomes (a cos - b sin, a sin + b cos).  S heads of 128: those of queries and keys have plain = 0 and the norm's weight
in gamma; those of values have gamma = 0, plain = 1, cos = 1 and sin = 0, and pass unchanged.  So one product serves
all three, however many heads each has (Henry et al. 2020, arXiv 2010.04245, in the form of Qwen3 and Gemma 3).
x [M, K], w [128S, K] with rows ordered so that pairs are adjacent, gamma and plain [128S], table [M, 128S] of
alternating cos, sin, and the number eps give y [M, 128S] and, for the backward pass, q [M, 128S].
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task


@program_task(
    x=Tensor("M K"),
    w=Tensor("128S K", scale="K**-0.5", layout="pairs"),
    gamma=Tensor("128S", layout="pairs", low=0.5, high=1.5),
    plain=Tensor("128S", layout="pairs", low=-1.0, high=1.0),
    table=Tensor("M 128S", layout="pairs", low=-1.0, high=1.0),
    eps=Tensor("", low=1e-6, high=1e-5),
    stages=(product("project", "x @ w.T", reads=("gamma", "plain", "table", "eps"), writes=("y", "q")),),
    out={"y": Tensor("M 128S", layout="pairs"), "q": Tensor("M 128S", layout="pairs")},
    workloads=[
        {"M": 4096, "S": 48, "K": 4096},
        {"M": 16384, "S": 48, "K": 4096},
        {"M": 16384, "S": 32, "K": 2048},
    ],
)
def qkv_qknorm_rope(x, w, gamma, plain, table, eps):
    """Each head (128 columns) of q = x @ w.T times (its rstd * gamma + plain); pairs turn by the table's angles; q."""
    q = x @ w.T
    heads = q.float().unflatten(-1, (-1, 128))
    rstd = torch.rsqrt(heads.square().mean(-1, keepdim=True) + eps)
    scale = rstd * gamma.unflatten(-1, (-1, 128)) + plain.unflatten(-1, (-1, 128))
    a, b = (heads * scale).flatten(-2).unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    return {"y": torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2), "q": q}
