"""A task of your own: the output layer of a block, with a bias, a soft limit, and the residual stream added.

codasmith run examples/bias_softcap_residual.py --model builtin:tracer
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("N K", scale="8 * K**-0.5"),
    bias=Tensor("N"),
    residual=Tensor("M N"),
    out={"y": Tensor("M N")},
    workloads=[{"M": 8192, "N": 4096, "K": 4096}],
)
def bias_softcap_residual(x, w, bias, residual):
    """y = residual + 15 * tanh((x @ w.T + bias) / 15)."""
    h = x @ w.T + bias
    return {"y": residual + 15.0 * torch.tanh(h / 15.0)}
