"""Gradients of an operator: by its backward twin where it is a program that has one, else its reference's, recomputed.

Recomputed: the forward is one fused kernel and saves its inputs alone; the backward runs the plain-PyTorch reference
again, in the same dtypes, and differentiates it.  Right, but not fused.  A program's twin is a program of its own,
and reads what the forward one wrote for it; where it does not give what is asked (a gradient of a gradient, or that of
an output which is there for the twin alone), the reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from ..tasks import Task
from . import unfused
from .sizes import Value
from .twin import Twin


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, task: Task, twin: Twin | None, forward: Callable, *values: Value):
        results = forward(values)
        ctx.task, ctx.twin = task, twin
        ctx.places = places = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
        kept: Sequence[Any] = values
        if len(places) == len(values):
            ctx.constants = (None,) * len(values)
        else:
            ctx.constants = tuple(None if isinstance(v, torch.Tensor) else v for v in values)
            kept = [values[i] for i in places]
        if twin is not None:
            outputs = results if isinstance(results, tuple | list) else (results,)
            ctx.shapes = [(r.shape, r.dtype) for r in outputs]
            kept = [*kept, *(outputs[i] for i in twin.saved)]
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None):
        values, saved = list(ctx.constants), ctx.saved_tensors
        for i, tensor in zip(ctx.places, saved, strict=False):
            values[i] = tensor
        wanted = [i for i in ctx.places if ctx.needs_input_grad[i + 3]]
        twin: Twin | None = ctx.twin
        twice = torch.is_grad_enabled()
        if all(g is None for g in grads):
            by_place: dict[int, torch.Tensor | None] = {}
        elif twin is not None and not twice and twin.serves(grads, wanted):
            outputs = dict(zip(twin.saved, saved[len(ctx.places) :], strict=True))
            by_place = {**twin.gradients(grads, values, outputs, ctx.shapes, wanted)}
        else:
            by_place = _recomputed(ctx.task, values, grads, wanted, twice)
        return None, None, None, *(by_place.get(i) for i in range(len(values)))


def _recomputed(
    task: Task, values: list[Value], grads: Sequence[torch.Tensor | None], wanted: list[int], twice: bool
) -> dict[int, torch.Tensor | None]:
    with torch.enable_grad():
        for i in wanted:
            values[i] = values[i].view_as(values[i]) if twice else values[i].detach().requires_grad_()
        results = unfused.compute(task, values).values()
        used = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
        outputs, given = [r for r, _ in used], [g for _, g in used]
        leaves = [values[i] for i in wanted]
        found = torch.autograd.grad(outputs, leaves, given, create_graph=twice, allow_unused=True)
    return dict(zip(wanted, found, strict=True))


# Function.apply asks first whether torch.func is at work, which costs as much as the function: below it.
_apply_outside_transforms = super(torch.autograd.Function, _Differentiable).apply


def differentiable_launch(task: Task, twin: Twin | None, forward: Callable, values: tuple[Value, ...]) -> Any:
    """What `forward` makes of the inputs, differentiable; `forward` takes one tuple.

    Only where no transform of torch.func is active.
    """
    return _apply_outside_transforms(task, twin, forward, *values)


def differentiable(task: Task, forward: Callable, twin: Callable[[], Twin | None]) -> Callable:
    """The operator's function for the autograd key; `forward` dispatches to the key below. twin: what there is now."""

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
            return _Differentiable.apply(task, twin(), below, *values)
        return below(values)

    return function
