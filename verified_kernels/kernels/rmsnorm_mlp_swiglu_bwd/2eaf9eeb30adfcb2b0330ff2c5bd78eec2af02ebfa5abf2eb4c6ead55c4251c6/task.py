"""Backward of rmsnorm_mlp_swiglu: the norm's row statistic comes out of SwiGLU's backward, so no pass over rows is
left.

With c = h rstd and N = dz W_up:  s = (1/D) sum over columns of z dz, which equals the mean of gamma N c; then
dx = dy + (N gamma - c s) rstd, dgamma = sum over rows of N c, da = dx W_o (CODA, arXiv 2605.19269).  The weights:
dW_down = dy^T o, dW_up = dz^T (c gamma), dW_o = dx^T a; o and c gamma are computed again in the epilogues.
dy and h [M, D], z [M, 2F] of alternating gate, up, rstd [M] in float32, a [M, K] and the weights give da [M, K],
dx [M, D], dw_o [D, K], dw_up [2F, D], dw_down [D, F] and dgamma [D] in float32.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task


@program_task(
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
        product("gates", "dy @ w_down", reads=("z",), writes=("dz", "o", "zdz")),
        finish("statistic", "mean", reads=("zdz",), writes="s", d="D"),
        product("weight_down", "dy.T @ o", writes=("dw_down",)),
        product("norm", "dz @ w_up", reads=("h", "gamma", "rstd", "s", "dy"), writes=("dx", "g", "dgamma")),
        product("weight_up", "dz.T @ g", writes=("dw_up",)),
        product("input", "dx @ w_o", writes=("da",)),
        product("weight_o", "dx.T @ a", writes=("dw_o",)),
    ),
    between={
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
    },
    workloads=[
        {"M": 16384, "K": 4096, "D": 4096, "F": 11008},
        {"M": 16384, "K": 4096, "D": 4096, "F": 14336},
        {"M": 16384, "K": 2048, "D": 2048, "F": 5632},
    ],
)
def rmsnorm_mlp_swiglu_bwd(dy, w_down, z, w_up, h, gamma, rstd, w_o, a):
    """The gradients of rmsnorm_mlp_swiglu, from dy and the stored z, h and rstd; s is taken of z and dz."""
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
    }
