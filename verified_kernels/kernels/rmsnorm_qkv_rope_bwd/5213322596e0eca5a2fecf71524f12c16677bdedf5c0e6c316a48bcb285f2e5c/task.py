"""Backward of rmsnorm_qkv_rope: a row kernel turns dqkv back and leaves the norm's statistic, two products follow.

With dp = dqkv turned back, s = (1/D) sum over columns of qkv dqkv, c = x rstd and N = dp W_qkv:
dx = (N gamma - c s) rstd, dgamma = sum over rows of N c, dW_qkv = dp^T (c gamma) (CODA, arXiv 2605.19269).
dqkv, qkv and table [M, N], w_qkv [N, D], x [M, D], gamma [D] and rstd [M] in float32 give dx [M, D], dw_qkv [N, D] and
dgamma [D] in float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task, rows


@program_task(
    dqkv=Tensor("M N", layout="pairs"),
    qkv=Tensor("M N", layout="pairs"),
    table=Tensor("M N", layout="pairs", low=-1.0, high=1.0),
    w_qkv=Tensor("N D", scale="D**-0.5", layout="pairs"),
    x=Tensor("M D"),
    gamma=Tensor("D", low=0.5, high=1.5),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    stages=(
        rows("rotation", "rope_bwd", reads=("dqkv", "qkv", "table"), writes=("dp", "pdp")),
        finish("statistic", "mean", reads=("pdp",), writes="s", d="D"),
        product("norm", "dp @ w_qkv", reads=("x", "gamma", "rstd", "s"), writes=("dx", "g", "dgamma")),
        product("weight_qkv", "dp.T @ g", writes=("dw_qkv",)),
    ),
    between={
        "dp": Tensor("M N", layout="pairs"),
        "pdp": Tensor("M", "f32"),
        "s": Tensor("M", "f32"),
        "g": Tensor("M D"),
    },
    out={"dx": Tensor("M D"), "dgamma": Tensor("D", "f32"), "dw_qkv": Tensor("N D", layout="pairs")},
    workloads=[
        {"M": 16384, "D": 2048, "N": 6144},
        {"M": 16384, "D": 4096, "N": 12288},
        {"M": 16384, "D": 4096, "N": 6144},
    ],
)
def rmsnorm_qkv_rope_bwd(dqkv, qkv, table, w_qkv, x, gamma, rstd):
    """The gradients of rmsnorm_qkv_rope from dqkv and the stored qkv and rstd; s is taken of qkv and dqkv."""
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    left, right = dqkv.float().unflatten(-1, (-1, 2)).unbind(-1)
    dp = torch.stack((left * cos + right * sin, right * cos - left * sin), -1).flatten(-2).to(x.dtype)
    s = (qkv.float() * dqkv).sum(-1) / x.shape[-1]
    n, c = dp @ w_qkv, x * rstd[:, None]
    dx = (n * gamma - c * s[:, None]) * rstd[:, None]
    return {"dx": dx, "dgamma": (n * c).sum(0), "dw_qkv": dp.T @ (c * gamma).to(x.dtype)}
