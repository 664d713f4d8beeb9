"""Worked example of the prompt, with an output twice as wide as the product: two gradients of each pair of columns."""

import torch
from codasmith.tasks import Tensor, task


@task(
    gemm="dy @ w",
    level=2,
    dy=Tensor("M K"),
    w=Tensor("K F", scale="K**-0.5"),
    z=Tensor("M 2F", layout="pairs"),
    out={"dz": Tensor("M 2F", layout="pairs")},
)
def tanh_value_bwd(dy, w, z):
    """The gradient of z, whose columns alternate value, gate, through value * tanh(gate)."""
    d = dy @ w
    value, gate = z.float().unflatten(-1, (-1, 2)).unbind(-1)
    t = torch.tanh(gate)
    return {"dz": torch.stack((d * t, d * value * (1 - t * t)), -1).flatten(-2)}
