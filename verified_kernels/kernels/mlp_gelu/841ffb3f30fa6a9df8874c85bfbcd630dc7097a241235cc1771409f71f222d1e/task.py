"""The MLP of BERT, GPT-2 and ViT in training: o = gelu(x W_up^T + b_up), then y = o W_down^T + b_down.

x [M, D], w_up [F, D], b_up [F], w_down [D, F], b_down [D] give y [M, D] and, for the backward pass, pre [M, F], what
the exact GELU was applied to.
"""

from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task
from torch.nn.functional import gelu


@program_task(
    x=Tensor("M D"),
    w_up=Tensor("F D", scale="D**-0.5"),
    b_up=Tensor("F"),
    w_down=Tensor("D F", scale="F**-0.5"),
    b_down=Tensor("D"),
    stages=(
        product("up", "x @ w_up.T", reads=("b_up",), writes=("pre", "o")),
        product("down", "o @ w_down.T", reads=("b_down",), writes=("y",)),
    ),
    between={"o": Tensor("M F")},
    out={"y": Tensor("M D"), "pre": Tensor("M F")},
    workloads=[
        {"M": 16384, "D": 1024, "F": 4096},
        {"M": 16384, "D": 1600, "F": 6400},
        {"M": 16384, "D": 4096, "F": 16384},
    ],
)
def mlp_gelu(x, w_up, b_up, w_down, b_down):
    """y = gelu(pre) @ w_down.T + b_down, with pre = x @ w_up.T + b_up."""
    pre = x @ w_up.T + b_up
    return {"y": gelu(pre) @ w_down.T + b_down, "pre": pre}
