"""The second half of a Llama block, its norm deferred: attention's projection and residual, RMSNorm, SwiGLU, residual.

h = a W_o^T + x; y = h + (silu(gate) up) W_down^T with gate, up = (RMSNorm(h) gamma) W_up^T.  The first product leaves
h gamma and the sums of squares, a formula makes rstd of them, and the second product's epilogue multiplies by it
(CODA, arXiv 2605.19269).
a [M, K] from attention, x [M, D] the residual stream, w_o [D, K], gamma [D], w_up [2F, D] as [gate; up] and w_down
[D, F] give y [M, D].
"""

from codasmith.tasks import Tensor
from codasmith.tasks.program_task import finish, product, program_task
from torch.nn.functional import rms_norm, silu


@program_task(
    a=Tensor("M K"),
    w_o=Tensor("D K", scale="K**-0.5"),
    x=Tensor("M D"),
    gamma=Tensor("D", low=0.5, high=1.5),
    w_up=Tensor("2F D", scale="D**-0.5", layout="halves"),
    w_down=Tensor("D F", scale="F**-0.5"),
    stages=(
        product("attention_out", "a @ w_o.T", reads=("x", "gamma"), writes=("h", "g", "sumsq")),
        finish("statistic", "rsqrt_mean", reads=("sumsq",), writes="rstd", d="D", eps=1e-6),
        product("up", "g @ w_up.T", reads=("rstd",), writes=("o",)),
        product("down", "o @ w_down.T", reads=("h",), writes=("y",)),
    ),
    between={
        "h": Tensor("M D"),
        "g": Tensor("M D"),
        "sumsq": Tensor("M", "f32"),
        "rstd": Tensor("M", "f32"),
        "o": Tensor("M F"),
    },
    out={"y": Tensor("M D")},
    workloads=[
        {"M": 16384, "K": 2048, "D": 2048, "F": 5632},
        {"M": 16384, "K": 4096, "D": 4096, "F": 11008},
        {"M": 8192, "K": 4096, "D": 4096, "F": 14336},
    ],
)
def rmsnorm_mlp_swiglu(a, w_o, x, gamma, w_up, w_down):
    """y = h + SwiGLU(RMSNorm(h) * gamma), with h = a @ w_o.T + x."""
    h = a @ w_o.T + x
    gate, up = (rms_norm(h, (h.shape[-1],), gamma, 1e-6) @ w_up.T).chunk(2, -1)
    return {"y": h + (silu(gate) * up) @ w_down.T}
