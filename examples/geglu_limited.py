"""A gated layer of your own: GELU gate, both halves limited, weights as checkpoints hold them ([gate; up]).

codasmith run examples/geglu_limited.py --model builtin:tracer
"""

import torch.nn.functional as F
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="3 * K**-0.5", layout="halves"),
    out={"o": Tensor("M F")},
    workloads=[{"M": 8192, "F": 14336, "K": 4096}],
)
def geglu_limited(x, w):
    """o = gelu(gate) * up, the gate at most 7 and up within [-7, 7]."""
    gate, up = (x @ w.T).chunk(2, -1)
    return {"o": F.gelu(gate.clamp(max=7.0)) * up.clamp(-7.0, 7.0)}
