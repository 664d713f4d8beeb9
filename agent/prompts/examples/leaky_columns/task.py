"""Worked example of the prompt, in element mode: vectors, a condition, and a reduction."""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    gain=Tensor("M", "f32", low=0.5, high=1.5),
    shift=Tensor("N", "f32"),
    out={"o": Tensor("M N"), "peak": Tensor("M", "f32")},
)
def leaky_columns(x, w, gain, shift):
    """Scale rows, shift columns, weaken what is negative; and the largest magnitude of each row before that."""
    y = (x @ w.T) * gain[:, None] + shift
    return {"o": torch.where(y > 0, y, 0.125 * y), "peak": y.abs().amax(-1)}
