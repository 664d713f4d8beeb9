"""Between products, one pass over each row: a kernel on a GPU, else its torch meaning.

Each is an operator of its own too, which torch.compile takes as it is; without it, the dispatcher is left out.
Tensors are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...templates.rows import row_kernel
from .. import inductor
from ..errors import InputError

NAMESPACE = "codasmith_rows"
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
Two = tuple[torch.Tensor, torch.Tensor]


def _operator(schema: str) -> Callable[[Callable], Callable]:
    """The function, which while torch.compile traces calls the operator of this schema that it becomes."""

    def made(function: Callable) -> Callable:
        name = schema.split("(")[0]
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            _library.impl(name, function, key)

        def fake(*values: Any) -> Any:
            return _outputs(name, values)

        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
        overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        inductor.announce(overload)

        def called(*values: Any) -> Any:
            return overload(*values) if torch.compiler.is_compiling() else function(*values)

        called.__name__, called.__doc__ = function.__name__, function.__doc__
        return called

    return made


def _outputs(name: str, values: tuple[Any, ...]) -> Any:
    """Tensors for what the operator of that name writes, not yet filled."""
    like = values[3] if name == "qkv_unrotate" else values[1] if name == "qknorm_unrotate" else values[0]
    made = like.new_empty(like.shape)
    if name == "dlogits":
        return made
    return made, like.new_empty(like.shape[1 if name == "qknorm_unrotate" else 0], dtype=torch.float32)


@_operator("qkv_unrotate(Tensor dq, Tensor dk, Tensor dv, Tensor y, Tensor table) -> (Tensor, Tensor)")
def qkv_unrotate(dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor, y: torch.Tensor, table: torch.Tensor) -> Two:
    """The gradient through a rotation of the pairs of queries and keys, and each row's sum of y * dy in float32.

    dq [M, H head_dim], dk and dv [M, G head_dim], y [M, (H + 2 G) head_dim], table [M, head_dim].
    Returns [M, (H + 2 G) head_dim] in y's dtype and [M].
    """
    kernel = row_kernel("qkv_rope_bwd")
    if not y.is_cuda:
        return _narrow(kernel.meaning(dq, dk, dv, y, table))
    dz, total = _outputs("qkv_unrotate", (dq, dk, dv, y, table))
    kernel.launch(dq, dk, dv, y, table, dz, total)
    return dz, total


@_operator("qknorm_unrotate(Tensor dy, Tensor q, Tensor gamma, Tensor table, float eps) -> (Tensor, Tensor)")
def _qknorm_unrotate(dy: torch.Tensor, q: torch.Tensor, weights: torch.Tensor, table: torch.Tensor, eps: float) -> Two:
    kernel, head_dim = row_kernel("qknorm_rope_bwd"), 128
    arguments = dy, q, weights, torch.zeros_like(weights), table, eps
    if not dy.is_cuda:
        return _narrow(kernel.meaning(*arguments, head_dim=head_dim))
    dq, parts = _outputs("qknorm_unrotate", arguments)
    kernel.launch(*arguments, dq, parts, head_dim=head_dim)
    return dq, parts


def qknorm_unrotate(dy: torch.Tensor, q: torch.Tensor, gamma: torch.Tensor, table: torch.Tensor, eps: float) -> Two:
    """The gradient through a rotation and the RMSNorm of each head before it, and that of the norm's weight.

    dy, q, table [M, heads * 128]; gamma [128]. Returns dq in q's dtype and dgamma [128] in float32.
    """
    weights = gamma.repeat(dy.shape[1] // len(gamma))
    dq, parts = _qknorm_unrotate(dy, q, weights, table, eps)
    return dq, parts.unflatten(0, (-1, len(gamma))).sum(0)


@_operator("norm_scale(Tensor x, Tensor gamma, float eps) -> (Tensor, Tensor)")
def norm_scale(x: torch.Tensor, gamma: torch.Tensor, eps: float) -> Two:
    """x * gamma and rsqrt(mean of x^2 + eps) in float32. x [M, N], gamma [N]. Raises InputError for other widths."""
    if gamma.shape != x.shape[1:]:
        raise InputError(
            f"x is {x.shape[-1]} wide, and the norm's weight has shape {list(gamma.shape)}; give both the same width"
        )
    kernel = row_kernel("rms_scale")
    if not x.is_cuda:
        return _narrow(kernel.meaning(x, gamma, eps))
    g, rstd = _outputs("norm_scale", (x,))
    kernel.launch(x, gamma, eps, g, rstd)
    return g, rstd


@_operator("dlogits(Tensor logits, Tensor lse, Tensor target, Tensor dloss) -> Tensor")
def dlogits(logits: torch.Tensor, lse: torch.Tensor, target: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
    """(softmax(logits) - one-hot(target)) * dloss in the dtype of the logits.

    logits [M, N]; lse, dloss [M] in float32; target [M].
    """
    kernel = row_kernel("dlogits")
    if not logits.is_cuda:
        return kernel.meaning(logits, lse, target, dloss)
    made = _outputs("dlogits", (logits,))
    kernel.launch(logits, lse, target, dloss, made)
    return made


def _narrow(found: Two) -> Two:
    return found[0], found[1].to(torch.float32)
