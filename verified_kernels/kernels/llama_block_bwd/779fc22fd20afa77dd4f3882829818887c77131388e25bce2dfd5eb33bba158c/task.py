"""Backward of llama_block: from the gradients of qkv and y to those of a, x, all weights and both norms' weights.

One row kernel turns dqkv back and leaves the statistic of the norm before it; three fused products take the gradient
through norm, SwiGLU and norm; four plain ones make the weights' gradients, and one that of a (CODA, arXiv 2605.19269).
Each norm's backward is as in rmsnorm_mlp_swiglu_bwd, with s = (1/D) sum over columns of qkv dqkv for the second: a
rotation leaves that sum alone.  Through the second norm, dy becomes the gradient of all of y.
dqkv and qkv [M, N], table [M, N], dy, y and h [M, D], z [M, 2F], rstd and rstd_next [M] in float32, a [M, K] and the
weights give da [M, K], dx [M, D], dw_o, dw_up, dw_down, dw_qkv as the weights, and dgamma and dgamma_next [D] in
float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task, rows


@program_task(
    dqkv=Tensor("M N", layout="pairs"),
    qkv=Tensor("M N", layout="pairs"),
    table=Tensor("M N", layout="pairs", low=-1.0, high=1.0),
    w_qkv=Tensor("N D", scale="D**-0.5", layout="pairs"),
    y=Tensor("M D"),
    gamma_next=Tensor("D", low=0.5, high=1.5),
    rstd_next=Tensor("M", "f32", low=0.5, high=1.5),
    dy=Tensor("M D"),
    w_down=Tensor("D F", scale="F**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    w_up=Tensor("2F D", scale="D**-0.5", layout="pairs"),
    h=Tensor("M D"),
    gamma=Tensor("D", low=0.5, high=1.5),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    w_o=Tensor("D K", scale="K**-0.5"),
    a=Tensor("M K"),
    stages=(
        rows("rotation", "rope_bwd", reads=("dqkv", "qkv", "table"), writes=("dp", "pdp")),
        finish("statistic_next", "mean", reads=("pdp",), writes="s_next", d="D"),
        product(
            "norm_next",
            "dp @ w_qkv",
            reads=("y", "gamma_next", "rstd_next", "s_next", "dy"),
            writes=("dy_all", "g_next", "dgamma_next"),
        ),
        product("weight_qkv", "dp.T @ g_next", writes=("dw_qkv",)),
        product("gates", "dy_all @ w_down", reads=("z",), writes=("dz", "o", "zdz")),
        finish("statistic", "mean", reads=("zdz",), writes="s", d="D"),
        product("weight_down", "dy_all.T @ o", writes=("dw_down",)),
        product("norm", "dz @ w_up", reads=("h", "gamma", "rstd", "s", "dy_all"), writes=("dx", "g", "dgamma")),
        product("weight_up", "dz.T @ g", writes=("dw_up",)),
        product("input", "dx @ w_o", writes=("da",)),
        product("weight_o", "dx.T @ a", writes=("dw_o",)),
    ),
    between={
        "dp": Tensor("M N", layout="pairs"),
        "pdp": Tensor("M", "f32"),
        "s_next": Tensor("M", "f32"),
        "dy_all": Tensor("M D"),
        "g_next": Tensor("M D"),
        "dz": Tensor("M 2F", layout="pairs"),
        "o": Tensor("M F"),
        "zdz": Tensor("M", "f32"),
        "s": Tensor("M", "f32"),
        "g": Tensor("M D"),
    },
    out={
        "da": Tensor("M K"),
        "dw_o": Tensor("D K"),
        "dx": Tensor("M D"),
        "dgamma": Tensor("D", "f32"),
        "dw_up": Tensor("2F D", layout="pairs"),
        "dw_down": Tensor("D F"),
        "dgamma_next": Tensor("D", "f32"),
        "dw_qkv": Tensor("N D", layout="pairs"),
    },
    workloads=[
        {"M": 16384, "K": 2048, "D": 2048, "F": 5632, "N": 6144},
        {"M": 16384, "K": 4096, "D": 4096, "F": 11008, "N": 12288},
        {"M": 16384, "K": 4096, "D": 4096, "F": 14336, "N": 6144},
    ],
)
def llama_block_bwd(dqkv, qkv, table, w_qkv, y, gamma_next, rstd_next, dy, w_down, z, w_up, h, gamma, rstd, w_o, a):
    """The gradients of llama_block from those of qkv and y; each norm's statistic is taken of what came behind it."""
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    left, right = dqkv.float().unflatten(-1, (-1, 2)).unbind(-1)
    dp = torch.stack((left * cos + right * sin, right * cos - left * sin), -1).flatten(-2).to(dy.dtype)
    s = (qkv.float() * dqkv).sum(-1) / dy.shape[-1]
    n, c = dp @ w_qkv, y * rstd_next[:, None]
    dy = (dy + (n * gamma_next - c * s[:, None]) * rstd_next[:, None]).to(dy.dtype)
    dgamma_next, dw_qkv = (n * c).sum(0), dp.T @ (c * gamma_next).to(dy.dtype)

    d = dy @ w_down
    gate, up = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    sigma = torch.sigmoid(gate)
    d_gate = d * up * (sigma + gate * sigma * (1 - sigma))
    dz = torch.stack((d_gate, d * gate * sigma), -1).flatten(-2)
    s = (z * dz).sum(-1) / dy.shape[-1]
    dz, o = dz.to(dy.dtype), (gate * sigma * up).to(dy.dtype)
    n, c = dz @ w_up, h * rstd[:, None]
    dx = (dy + (n * gamma - c * s[:, None]) * rstd[:, None]).to(dy.dtype)
    return {
        "da": dx @ w_o,
        "dw_o": dx.T @ a,
        "dx": dx,
        "dgamma": (n * c).sum(0),
        "dw_up": dz.T @ (c * gamma).to(dy.dtype),
        "dw_down": dy.T @ o,
        "dgamma_next": dgamma_next,
        "dw_qkv": dw_qkv,
    }
