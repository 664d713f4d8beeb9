"""A launch with everything looked up beforehand: what a repeated call costs the host is allocation and launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from .launch import TORCH_DTYPES, Kernel, bind, product_shape, workspace_shapes

Launch = Callable[[tuple[Any, ...]], tuple[torch.Tensor, ...]]
"""From the inputs, in the order of the task's reference, to the new outputs in order; accumulated outputs, which
are inputs too, are written in place."""


def bound(kernel: Kernel, inputs: dict[str, Any]) -> Launch:
    """A launch on the current stream for all inputs of these shapes, dtypes and device. Never waits for the GPU."""
    signature = kernel.signature
    sizes, device = bind(signature, inputs), inputs[signature.a].device
    text = {(0, name): f"v{i}" for i, name in enumerate(signature.inputs)}  # what stands for a tensor in the launch
    selected = {sink.name for sink in signature.sinks if sink.join == "select"}
    made: dict[str, Callable[[], torch.Tensor]] = {}
    for name in signature.outputs:
        if name in signature.accumulates:
            text[1, name] = text[0, name]
            continue
        spec, text[1, name] = signature.tensors[name], f"o{len(made)}"
        made[text[1, name]] = _allocation(spec.size(sizes), TORCH_DTYPES[spec.dtype], device, name in selected)
    new = tuple(made)
    if kernel.joined:
        for field, shape in workspace_shapes(signature, *product_shape(signature, inputs)).items():
            text[2, field] = f"o{len(made)}"
            made[text[2, field]] = _allocation(shape, torch.float32, device, False)
    known: dict[str, Any] = {f"make_{name}": allocate for name, allocate in made.items()}

    def viewed(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> str:
        """A view of an input, as the compiled call wants it."""
        place = f"_{len(known)}"
        known["shape" + place], known["strides" + place] = shape, strides
        return f"view({text[0, name]}, shape{place}, strides{place}, 0)"

    def argument(source: int | None, name: str, batch: bool) -> str:
        if source is None:
            return "None"
        if not batch:
            return text[source, name]
        shape = (1, *inputs[name].shape)
        return viewed(name, shape, _strides(shape))

    # A dimension of one element is contiguous whatever its stride, which the compiled call does not look at either, but
    # tells TMA, whose strides are multiples of 16 bytes.  A view gets the stride that a tensor of its own would have.
    straight = [
        f"{text[0, name]} = {viewed(name, value.shape, _strides(value.shape))}"
        for name, value in inputs.items()
        if name in signature.inputs and isinstance(value, torch.Tensor) and value.dim() == 2
        if value.is_contiguous() and value.stride() != _strides(value.shape)
    ]
    a = text[0, signature.a]
    if signature.a_transposed:
        rows, columns = inputs[signature.a].shape
        a = viewed(signature.a, (columns, rows), (1, columns))
    c = text[0, signature.c] if signature.c else "None"
    d = text[1, signature.d] if signature.d else "None"
    fields = "".join(f"{argument(*place)}, " for place in kernel.places)
    lines = [
        f"{''.join(f'{text[0, name]}, ' for name in signature.inputs)}= values",
        *straight,
        *(f"{name} = make_{name}()" for name in made),
        f"gemm({a}, {text[0, signature.b]}, {d}, {c}, ({fields}), scheduler, None, None, None)",
    ]
    for i, (join, partials, output) in enumerate(kernel.joined):
        known[f"join{i}"] = join
        lines.append(f"join{i}({text[2, partials]}, {text[1, output]})")
    lines.append(f"return ({''.join(f'{name}, ' for name in new)})")
    known.update(view=_view, gemm=kernel.gemm, scheduler=kernel.scheduler(device.index))
    known.update(current=_current_device, index=device.index, on=partial(torch.cuda.device, device))
    return _written(tuple(lines), tuple(known))(**known)


@cache
def _written(lines: tuple[str, ...], known: tuple[str, ...]) -> Callable[..., Launch]:
    """The launch's lines as a function of what they use: Python that loops over its arguments costs twice as much.

    Of a kernel all shapes share it.  The names in the lines are made above; nothing of a candidate stands in them.
    """
    body = "".join(f"        {line}\n" for line in lines)
    source = f"""def bind({", ".join(known)}):
    def launch(values):
        if current() != index:
            with on():
                return launch(values)
{body}    return launch
"""
    space: dict[str, Any] = {}
    exec(source, space)
    return space["bind"]


_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
# What torch.compile's generated code calls: past the dispatcher, and the view has no part in autograd.
_view = getattr(torch._C._dynamo.guards, "_reinterpret_tensor", lambda t, size, stride, _: t.as_strided(size, stride))


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return tuple(strides)


def _allocation(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, left_alone: bool
) -> Callable[[], torch.Tensor]:
    """Makes a contiguous tensor; NaN where rows may be left alone, as `select` says of an index that selects none."""
    if left_alone:
        return partial(torch.full, shape, math.nan, dtype=dtype, device=device)
    # What torch.compile's generated code calls: a third of the time of torch.empty, on the current device.
    quick = getattr(torch._C._dynamo.guards, f"_empty_strided_{device.type}", None)
    if quick is None:
        return partial(torch.empty, shape, dtype=dtype, device=device)
    return partial(quick, tuple(shape), _strides(shape), dtype)
