"""Backward of mlp_gelu: gradients of its input, both weights and both biases, o recomputed from pre.

dpre = (dy W_down) (Phi(pre) + pre phi(pre)); dx = dpre W_up, dW_up = dpre^T x, dW_down = dy^T o; the biases' gradients
are the column sums of dpre and dy.
dy and x [M, D], pre [M, F], w_up [F, D], w_down [D, F] give dx [M, D], dw_up [F, D], dw_down [D, F], and db_up [F] and
db_down [D] in float32.
"""

import math

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task, rows


@program_task(
    dy=Tensor("M D"),
    w_down=Tensor("D F", scale="F**-0.5"),
    pre=Tensor("M F"),
    x=Tensor("M D"),
    w_up=Tensor("F D", scale="D**-0.5"),
    stages=(
        product("activation", "dy @ w_down", reads=("pre",), writes=("dpre", "o", "db_up")),
        product("weight_down", "dy.T @ o", writes=("dw_down",)),
        rows("bias_down", "column_sum", reads=("dy",), writes=("db_down",)),
        product("input", "dpre @ w_up", writes=("dx",)),
        product("weight_up", "dpre.T @ x", writes=("dw_up",)),
    ),
    between={"dpre": Tensor("M F"), "o": Tensor("M F")},
    out={
        "dx": Tensor("M D"),
        "dw_up": Tensor("F D"),
        "db_up": Tensor("F", "f32"),
        "dw_down": Tensor("D F"),
        "db_down": Tensor("D", "f32"),
    },
    workloads=[
        {"M": 16384, "D": 1024, "F": 4096},
        {"M": 16384, "D": 1600, "F": 6400},
        {"M": 16384, "D": 4096, "F": 16384},
    ],
)
def mlp_gelu_bwd(dy, w_down, pre, x, w_up):
    """The gradients of mlp_gelu with respect to x, both weights and both biases, from dy and the stored pre."""
    wide = pre.float()
    cdf = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))
    pdf = torch.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    dpre = (dy @ w_down) * (cdf + wide * pdf)
    db_up, dpre, o = dpre.sum(0), dpre.to(dy.dtype), (wide * cdf).to(dy.dtype)
    return {
        "dx": dpre @ w_up,
        "dw_up": dpre.T @ x,
        "db_up": db_up,
        "dw_down": dy.T @ o,
        "db_down": dy.float().sum(0),
    }
