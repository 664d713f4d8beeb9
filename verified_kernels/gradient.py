"""Gradients of an operator: those of its reference, recomputed.

The forward is one fused kernel and saves its inputs alone; the backward runs the plain-PyTorch reference
again, in the same dtypes, and differentiates it.  Right, but not fused: a fused backward belongs to a
program that knows the next product's operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from ..tasks import Task
from . import unfused
from .sizes import Value


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, task: Task, forward: Callable, *values: Value):
        ctx.task = task
        ctx.places = places = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
        if len(places) == len(values):
            ctx.constants = (None,) * len(values)
            ctx.save_for_backward(*values)
        else:
            ctx.constants = tuple(None if isinstance(v, torch.Tensor) else v for v in values)
            ctx.save_for_backward(*(values[i] for i in places))
        ctx.set_materialize_grads(False)
        return forward(values)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None):
        values = list(ctx.constants)
        for i, saved in zip(ctx.places, ctx.saved_tensors, strict=True):
            values[i] = saved
        wanted = [i for i in ctx.places if ctx.needs_input_grad[i + 2]]
        twice = torch.is_grad_enabled()
        with torch.enable_grad():
            for i in wanted:
                values[i] = values[i].view_as(values[i]) if twice else values[i].detach().requires_grad_()
            results = unfused.compute(ctx.task, values).values()
            used = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
            outputs, given = [r for r, _ in used], [g for _, g in used]
            leaves = [values[i] for i in wanted]
            found = torch.autograd.grad(outputs, leaves, given, create_graph=twice, allow_unused=True)
        by_place = dict(zip(wanted, found, strict=True))
        return None, None, *(by_place.get(i) for i in range(len(values)))


# Function.apply asks first whether torch.func is at work, which costs as much as the function: below it.
_apply_outside_transforms = super(torch.autograd.Function, _Recompute).apply


def recomputing(task: Task, forward: Callable, values: tuple[Value, ...]) -> Any:
    """What `forward` makes of the inputs, with the reference's gradient; `forward` takes one tuple.

    Only where no transform of torch.func is active.
    """
    return _apply_outside_transforms(task, forward, *values)


def differentiable(task: Task, forward: Callable) -> Callable:
    """The operator's function for the autograd key; `forward` dispatches to the key below."""

    def below(values: tuple[Value, ...]):
        with torch._C._AutoDispatchBelowAutograd():
            return forward(*values)

    def function(*values: Value):
        wanted = torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)
        if task.accumulates:
            if wanted:
                raise RuntimeError(
                    f"{task.name} adds to {', '.join(task.accumulates)} in place and has no gradient; "
                    "call it under torch.no_grad()"
                )
            return below(values)
        # Forward-mode differentiation has no rule here: the autograd function says so where it would be needed.
        if wanted or forward_ad._current_level >= 0:
            return _Recompute.apply(task, below, *values)
        return below(values)

    return function
