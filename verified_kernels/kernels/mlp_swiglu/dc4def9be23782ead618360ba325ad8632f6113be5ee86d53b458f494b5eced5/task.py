"""A SwiGLU feed-forward layer in training: o = silu(gate) up of z = x W_up^T, then y = o W_down^T.

x [M, D], w_up [2F, D] with rows of gate and up in turn, w_down [D, F] give y [M, D] and, for the backward pass,
z [M, 2F] of alternating gate, up.
"""

from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task
from torch.nn.functional import silu


@program_task(
    x=Tensor("M D"),
    w_up=Tensor("2F D", scale="D**-0.5", layout="pairs"),
    w_down=Tensor("D F", scale="F**-0.5"),
    stages=(
        product("up", "x @ w_up.T", writes=("z", "o")),
        product("down", "o @ w_down.T", writes=("y",)),
    ),
    between={"o": Tensor("M F")},
    out={"y": Tensor("M D"), "z": Tensor("M 2F", layout="pairs")},
    workloads=[
        {"M": 16384, "D": 2048, "F": 5632},
        {"M": 16384, "D": 4096, "F": 11008},
        {"M": 8192, "D": 4096, "F": 14336},
    ],
)
def mlp_swiglu(x, w_up, w_down):
    """y = (silu(gate) * up) @ w_down.T, where gate and up alternate in z = x @ w_up.T."""
    z = x @ w_up.T
    gate, up = z.unflatten(-1, (-1, 2)).unbind(-1)
    return {"y": (silu(gate) * up) @ w_down.T, "z": z}
