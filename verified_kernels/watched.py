"""Whether anything in this thread must see operators pass: a mode, a transform, a trace, autocast, a profiler.

Where nothing does, the dispatcher would only find the implementation that we know already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.autograd import forward_ad

from .errors import InputError

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transform = torch._C._functorch.peek_interpreter_stack
_trace = torch._C._get_tracing_state
_autocast = torch._C._is_any_autocast_enabled
_profiler = torch.autograd._profiler_enabled
_REFUSED = tuple(getattr(torch._C._functorch.TransformType, name) for name in ("Vmap", "Grad", "Jvp"))
ALIGNED = 64  # bytes: what a decision depends on of an address
TensorGuards: Any = getattr(torch._C._dynamo.guards, "TensorGuards", None)


def by_mode() -> bool:
    """True under a dispatch or function mode, a profiler, or forward-mode AD: what no tensor's dispatch keys show."""
    return _dispatch_modes() > 0 or _function_modes() > 0 or _profiler() or forward_ad._current_level >= 0


def watched() -> bool:
    """True as `by_mode`, and under torch.func, torch.jit.trace and autocast, which change the dispatch keys."""
    return by_mode() or _autocast() or _transform() is not None or _trace() is not None


def compiling() -> bool:
    """True while torch.compile traces what it will compile; not for an export, which must hold operators."""
    return torch._guards.TracingContext.try_get() is not None and not torch.compiler.is_exporting()


def refuse_transforms(name: str) -> None:
    """Raise InputError under torch.func's vmap, grad and jvp: a kernel has no rule, and a loop would be slow."""
    interpreter = _transform()
    if interpreter is not None and interpreter.key() in _REFUSED:
        raise InputError(
            f"{name} has no rule for torch.func ({interpreter.key().name.lower()}); for vmap, make the batch part of "
            "the rows, and for gradients call .backward() or torch.autograd.grad"
        )


def guard(values: Sequence[Any], places: Sequence[int]) -> Callable[..., bool]:
    """A check whether as many values are like these and nothing watches their call (see `watched`).

    places: of the tensors; the others are numbers.  Like: of the same class, dtype, device, shape and strides, under
    the same dispatch keys, and every tensor starting where fresh memory does.  Most of it is one call into C++,
    torch.compile's own guard; where a release of torch has another, every check fails and nothing but time is lost.
    """
    tensors = [values[i] for i in places]
    try:
        shapes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
        made = TensorGuards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides)
        check = _written(len(values), tuple(places))(made.check)
        return check if check(*values) else never
    except (TypeError, ValueError, RuntimeError):
        return never


@cache
def _written(count: int, places: tuple[int, ...]) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Makes the whole check of that of the tensors; written out, as a loop over them costs as much as all the rest."""
    numbers = "".join(f"and type(v{i}) in NUMBERS " for i in range(count) if i not in places)
    source = f"""def bind(like):
    def check({", ".join(f"v{i}" for i in range(count))}):
        return (
            like({", ".join(f"v{i}" for i in places)}) {numbers}
            and not ({" | ".join(f"v{i}.data_ptr()" for i in places)}) & {ALIGNED - 1}
            and not dispatch_modes() and not function_modes() and not profiler() and forward_ad._current_level < 0
        )
    return check
"""
    space = {
        "NUMBERS": (float, int),
        "dispatch_modes": _dispatch_modes,
        "function_modes": _function_modes,
        "profiler": _profiler,
        "forward_ad": forward_ad,
    }
    exec(source, space)
    return space["bind"]  # type: ignore[return-value]


def never(*values: Any) -> bool:
    """The check where there is nothing to be like."""
    return False
