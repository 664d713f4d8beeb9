"""Backward of qkv_qknorm_rope: a row kernel takes dy back to the projection, and two products go on from there.

With dz = dy turned back and t = sum over the head of dz gamma q: dq = dz (r gamma + plain) - q t r^3 / 128 and
dgamma = sum over rows of dz q r; then dx = dq W and dW = dq^T x.  r is computed again from q.
dy and q [M, 128S], gamma and plain [128S], table [M, 128S], eps, x [M, K] and w [128S, K] give dx [M, K],
dw [128S, K] and dgamma [128S] in float32, of which the values' heads are of no use.
"""

import torch
from codasmith.tasks import Tensor
from codasmith.tasks.program_task import product, program_task, rows


@program_task(
    dy=Tensor("M 128S", layout="pairs"),
    q=Tensor("M 128S", layout="pairs"),
    gamma=Tensor("128S", layout="pairs", low=0.5, high=1.5),
    plain=Tensor("128S", layout="pairs", low=-1.0, high=1.0),
    table=Tensor("M 128S", layout="pairs", low=-1.0, high=1.0),
    eps=Tensor("", low=1e-6, high=1e-5),
    x=Tensor("M K"),
    w=Tensor("128S K", scale="K**-0.5", layout="pairs"),
    stages=(
        rows(
            "heads",
            "qknorm_rope_bwd",
            reads=("dy", "q", "gamma", "plain", "table", "eps"),
            writes=("dq", "dgamma"),
            head_dim=128,
        ),
        product("input", "dq @ w", writes=("dx",)),
        product("weight", "dq.T @ x", writes=("dw",)),
    ),
    between={"dq": Tensor("M 128S", layout="pairs")},
    out={"dx": Tensor("M K"), "dw": Tensor("128S K", layout="pairs"), "dgamma": Tensor("128S", "f32", layout="pairs")},
    workloads=[
        {"M": 4096, "S": 48, "K": 4096},
        {"M": 16384, "S": 48, "K": 4096},
        {"M": 16384, "S": 32, "K": 2048},
    ],
)
def qkv_qknorm_rope_bwd(dy, q, gamma, plain, table, eps, x, w):
    """The gradients of qkv_qknorm_rope with respect to x, w and gamma, from dy and the stored q."""
    da, db = dy.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = table.unflatten(-1, (-1, 2)).unbind(-1)
    dz = torch.stack((da * cos + db * sin, db * cos - da * sin), -1).flatten(-2).unflatten(-1, (-1, 128))
    heads, weight, kept = (t.float().unflatten(-1, (-1, 128)) for t in (q, gamma, plain))
    rstd = torch.rsqrt(heads.square().mean(-1, keepdim=True) + eps)
    t = (dz * weight * heads).sum(-1, keepdim=True)
    dq = (dz * (rstd * weight + kept) - heads * t * rstd**3 / 128).flatten(-2).to(x.dtype)
    return {"dx": dq @ w, "dw": dq.T @ x, "dgamma": (dz * heads * rstd).sum(0).flatten()}
