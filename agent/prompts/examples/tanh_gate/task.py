"""Worked example of the prompt, with paired columns: a gate, and the value that it lets through."""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", scale="K**-0.5", layout="halves"),
    gain=Tensor("M", "f32", low=0.5, high=1.5),
    out={"o": Tensor("M F")},
)
def tanh_gate(x, w, gain):
    """The tanh of the first half of the columns, times the second half, scaled by row."""
    gate, value = (x @ w.T).chunk(2, -1)
    return {"o": torch.tanh(gate) * value * gain[:, None]}
