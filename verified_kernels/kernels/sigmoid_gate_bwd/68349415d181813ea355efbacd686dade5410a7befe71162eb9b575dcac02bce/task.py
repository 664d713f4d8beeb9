"""Backward of gated attention's output gate, behind the output projection: D = dy W, y = o sigmoid(gate).

d_o = D sigmoid(gate); d_gate = D o s (1 - s) with s = sigmoid(gate).  Qiu et al. 2025, arXiv 2505.06708; the last shape
is Qwen3-Next, whose attention is 4096 wide on a stream of 2048.
dy [M, K], w [K, N] (the output projection), o and gate [M, N] give d_o [M, N] and d_gate [M, N].
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K N", scale="K**-0.5"),
    o=Tensor("M N"),
    gate=Tensor("M N"),
    out={"d_o": Tensor("M N"), "d_gate": Tensor("M N")},
    workloads=[
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16384, "N": 4096, "K": 2048},
    ],
)
def sigmoid_gate_bwd(dy, w, o, gate):
    """The gradients of o and gate through y = o * sigmoid(gate), where dy @ w is that of y."""
    d = dy @ w
    s = torch.sigmoid(gate.float())
    return {"d_o": d * s, "d_gate": d * o * s * (1 - s)}
