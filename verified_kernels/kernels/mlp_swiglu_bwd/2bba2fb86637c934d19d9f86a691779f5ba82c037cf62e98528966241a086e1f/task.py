"""Backward of a SwiGLU feed-forward layer: gradients of its input and of both weights, o recomputed from z.

With s = sigmoid(gate) and D = dy W_down: d_up = D silu(gate), d_gate = D up (s + silu(gate) (1 - s)); then
dx = dz W_up, dW_up = dz^T x and dW_down = dy^T o.
dy and x [M, D], z [M, 2F] of alternating gate, up, w_up [2F, D] with such rows and w_down [D, F] give dx [M, D],
dw_up [2F, D] and dw_down [D, F].
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task


@program_task(
    dy=Tensor("M D"),
    w_down=Tensor("D F", scale="F**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    x=Tensor("M D"),
    w_up=Tensor("2F D", scale="D**-0.5", layout="pairs"),
    stages=(
        product("gates", "dy @ w_down", reads=("z",), writes=("dz", "o")),
        product("weight_down", "dy.T @ o", writes=("dw_down",)),
        product("input", "dz @ w_up", writes=("dx",)),
        product("weight_up", "dz.T @ x", writes=("dw_up",)),
    ),
    between={"dz": Tensor("M 2F", layout="pairs"), "o": Tensor("M F")},
    out={"dx": Tensor("M D"), "dw_up": Tensor("2F D", layout="pairs"), "dw_down": Tensor("D F")},
    workloads=[
        {"M": 16384, "D": 2048, "F": 5632},
        {"M": 16384, "D": 4096, "F": 11008},
        {"M": 8192, "D": 4096, "F": 14336},
    ],
)
def mlp_swiglu_bwd(dy, w_down, z, x, w_up):
    """The gradients of mlp_swiglu with respect to x, w_up and w_down, from dy and the stored z."""
    d = dy @ w_down
    gate, up = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    s = torch.sigmoid(gate)
    d_gate = d * up * (s + gate * s * (1 - s))
    d_up = d * gate * s
    dz = torch.stack((d_gate, d_up), -1).flatten(-2).to(dy.dtype)
    o = (gate * s * up).to(dy.dtype)
    return {"dx": dz @ w_up, "dw_up": dz.T @ x, "dw_down": dy.T @ o}
