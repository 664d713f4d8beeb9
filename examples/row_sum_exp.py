"""A reduction beside the output: logits, and each row's sum of their exponentials, as a softmax needs.

    codasmith run examples/row_sum_exp.py --model builtin:tracer

Under a tile that is not full, exp(0) = 1 must not be counted: the template masks it, and the gate looks.
"""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    out={"y": Tensor("M N"), "total": Tensor("M", "f32")},
    workloads=[{"M": 8192, "N": 8192, "K": 4096}],
)
def row_sum_exp(x, w):
    """y = x @ w.T; total = sum over each row of exp(y)."""
    y = x @ w.T
    return {"y": y, "total": torch.exp(y.float()).sum(-1)}
