"""The second half of a Llama block in training: attention's projection and residual, RMSNorm, SwiGLU, residual.

h = a W_o^T + x; y = h + (silu(gate) up) W_down^T with gate, up = (RMSNorm(h) gamma) W_up^T.  The norm is deferred: the
first product leaves h gamma and the sums of squares, a formula makes rstd of them, and the second product's epilogue
multiplies by it (CODA, arXiv 2605.19269).
a [M, K] from attention, w_o [D, K], x [M, D] the residual stream, gamma [D], w_up [2F, D] with rows of gate and up in
turn, w_down [D, F] and the number eps give y [M, D] and, for the backward pass, h [M, D], rstd [M] in float32 and
z [M, 2F] of alternating gate, up.
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
    eps=Tensor("", low=1e-6, high=1e-5),
    stages=(
        product("attention_out", "a @ w_o.T", reads=("x", "gamma"), writes=("h", "g", "sumsq")),
        finish("statistic", "rsqrt_mean", reads=("sumsq", "eps"), writes="rstd", d="D"),
        product("up", "g @ w_up.T", reads=("rstd",), writes=("z", "o")),
        product("down", "o @ w_down.T", reads=("h",), writes=("y",)),
    ),
    between={"g": Tensor("M D"), "sumsq": Tensor("M", "f32"), "o": Tensor("M F")},
    out={"y": Tensor("M D"), "h": Tensor("M D"), "rstd": Tensor("M", "f32"), "z": Tensor("M 2F", layout="pairs")},
    workloads=[
        {"M": 16384, "K": 4096, "D": 4096, "F": 11008},
        {"M": 16384, "K": 4096, "D": 4096, "F": 14336},
        {"M": 16384, "K": 2048, "D": 2048, "F": 5632},
    ],
)
def rmsnorm_mlp_swiglu(a, w_o, x, gamma, w_up, w_down, eps):
    """y = h + SwiGLU(RMSNorm(h) * gamma), with h = a @ w_o.T + x; also h, the norm's rstd, and SwiGLU's z."""
    h = a @ w_o.T + x
    z = rms_norm(h, (h.shape[-1],), gamma, eps) @ w_up.T
    gate, up = z.unflatten(-1, (-1, 2)).unbind(-1)
    rstd = torch.rsqrt(h.float().square().mean(-1) + eps)
    return {"y": h + (silu(gate) * up) @ w_down.T, "h": h, "rstd": rstd, "z": z}
