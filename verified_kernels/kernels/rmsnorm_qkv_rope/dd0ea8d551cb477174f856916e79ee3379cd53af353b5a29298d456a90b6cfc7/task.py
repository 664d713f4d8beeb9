"""The first part of a Llama block in training: RMSNorm, queries, keys and values in one product, rotary embedding.

qkv = rotary embedding of (RMSNorm(x) gamma) W_qkv^T; a row kernel makes x gamma and rstd, and the product's epilogue
multiplies by rstd (CODA, arXiv 2605.19269).  Later layers of a stack get theirs from llama_block.
x [M, D], gamma [D], w_qkv [N, D] with rows ordered so that pairs are adjacent, table [M, N] of alternating cos, sin
(1, 0 in the values' columns) and the number eps give qkv [M, N] and, for the backward pass, rstd [M] in float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task, rows
from torch.nn.functional import rms_norm


@program_task(
    x=Tensor("M D"),
    gamma=Tensor("D", low=0.5, high=1.5),
    w_qkv=Tensor("N D", scale="D**-0.5", layout="pairs"),
    table=Tensor("M N", layout="pairs", low=-1.0, high=1.0),
    eps=Tensor("", low=1e-6, high=1e-5),
    stages=(
        rows("statistic", "rms_scale", reads=("x", "gamma", "eps"), writes=("g", "rstd")),
        product("project", "g @ w_qkv.T", reads=("rstd", "table"), writes=("qkv",)),
    ),
    between={"g": Tensor("M D")},
    out={"qkv": Tensor("M N", layout="pairs"), "rstd": Tensor("M", "f32")},
    workloads=[
        {"M": 16384, "D": 2048, "N": 6144},
        {"M": 16384, "D": 4096, "N": 12288},
        {"M": 16384, "D": 4096, "N": 6144},
    ],
)
def rmsnorm_qkv_rope(x, gamma, w_qkv, table, eps):
    """Pairs of (RMSNorm(x) * gamma) @ w_qkv.T turned by the table's angles; the norm's rstd."""
    p = rms_norm(x, (x.shape[-1],), gamma, eps) @ w_qkv.T
    left, right = p.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    qkv = torch.stack((left * cos - right * sin, left * sin + right * cos), -1).flatten(-2)
    return {"qkv": qkv, "rstd": torch.rsqrt(x.float().square().mean(-1) + eps)}
