"""A Llama block in training, cut at attention: from one layer's attention to the queries, keys, values of the next.

h = a W_o^T + x; y = h + SwiGLU(RMSNorm(h) gamma); qkv = rotary embedding of (RMSNorm(y) gamma_next) W_qkv^T.  Cut
there, both norms lie between two products and are deferred (CODA, arXiv 2605.19269): four products and two formulas.
Attention itself is no part of it: it needs both ends of neighbouring blocks, has kernels of its own
(scaled_dot_product_attention), and would tie the program to one mask.  rmsnorm_qkv_rope begins a stack of layers and
rmsnorm_mlp_swiglu ends it.
a [M, K] from attention, w_o [D, K], x [M, D] the residual stream, gamma and gamma_next [D], w_up [2F, D] with rows of
gate and up in turn, w_down [D, F], w_qkv [N, D] with rows ordered so that pairs are adjacent, table [M, N] of
alternating cos, sin (1, 0 in the values' columns) and the number eps give y [M, D], qkv [M, N] and, for the backward
pass, h [M, D], z [M, 2F], and rstd and rstd_next [M] in float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task
from torch.nn.functional import rms_norm, silu


@program_task(
    a=Tensor("M K"),
    w_o=Tensor("D K", scale="K**-0.5"),
    x=Tensor("M D"),
    gamma=Tensor("D", low=0.5, high=1.5),
    w_up=Tensor("2F D", scale="D**-0.5", layout="pairs"),
    w_down=Tensor("D F", scale="F**-0.5"),
    gamma_next=Tensor("D", low=0.5, high=1.5),
    w_qkv=Tensor("N D", scale="D**-0.5", layout="pairs"),
    table=Tensor("M N", layout="pairs", low=-1.0, high=1.0),
    eps=Tensor("", low=1e-6, high=1e-5),
    stages=(
        product("attention_out", "a @ w_o.T", reads=("x", "gamma"), writes=("h", "g", "sumsq")),
        finish("statistic", "rsqrt_mean", reads=("sumsq", "eps"), writes="rstd", d="D"),
        product("up", "g @ w_up.T", reads=("rstd",), writes=("z", "o")),
        product("down", "o @ w_down.T", reads=("h", "gamma_next"), writes=("y", "g_next", "sumsq_next")),
        finish("statistic_next", "rsqrt_mean", reads=("sumsq_next", "eps"), writes="rstd_next", d="D"),
        product("project", "g_next @ w_qkv.T", reads=("rstd_next", "table"), writes=("qkv",)),
    ),
    between={
        "g": Tensor("M D"),
        "sumsq": Tensor("M", "f32"),
        "o": Tensor("M F"),
        "g_next": Tensor("M D"),
        "sumsq_next": Tensor("M", "f32"),
    },
    out={
        "y": Tensor("M D"),
        "qkv": Tensor("M N", layout="pairs"),
        "h": Tensor("M D"),
        "rstd": Tensor("M", "f32"),
        "z": Tensor("M 2F", layout="pairs"),
        "rstd_next": Tensor("M", "f32"),
    },
    workloads=[
        {"M": 16384, "K": 2048, "D": 2048, "F": 5632, "N": 6144},
        {"M": 16384, "K": 4096, "D": 4096, "F": 11008, "N": 12288},
        {"M": 16384, "K": 4096, "D": 4096, "F": 14336, "N": 6144},
    ],
)
def llama_block(a, w_o, x, gamma, w_up, w_down, gamma_next, w_qkv, table, eps):
    """The residual stream y behind the MLP, the next layer's rotated projection, and what the backward pass needs."""
    h = a @ w_o.T + x
    z = rms_norm(h, (h.shape[-1],), gamma, eps) @ w_up.T
    gate, up = z.unflatten(-1, (-1, 2)).unbind(-1)
    y = h + (silu(gate) * up) @ w_down.T
    p = rms_norm(y, (y.shape[-1],), gamma_next, eps) @ w_qkv.T
    left, right = p.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    return {
        "y": y,
        "qkv": torch.stack((left * cos - right * sin, left * sin + right * cos), -1).flatten(-2),
        "h": h,
        "rstd": torch.rsqrt(h.float().square().mean(-1) + eps),
        "z": z,
        "rstd_next": torch.rsqrt(y.float().square().mean(-1) + eps),
    }
