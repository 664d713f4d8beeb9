"""A launch with everything looked up beforehand: what a repeated call costs the host is allocation and launch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
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
    place = {(0, name): i for i, name in enumerate(signature.inputs)}
    selected = {sink.name for sink in signature.sinks if sink.join == "select"}
    allocations: list[Callable[[], torch.Tensor]] = []
    for name in signature.outputs:
        if name in signature.accumulates:
            place[1, name] = place[0, name]
            continue
        place[1, name] = len(signature.inputs) + len(allocations)
        spec = signature.tensors[name]
        allocations.append(_allocation(spec.size(sizes), TORCH_DTYPES[spec.dtype], device, name in selected))
    new = len(allocations)
    if kernel.joined:
        for field, shape in workspace_shapes(signature, *product_shape(signature, inputs)).items():
            place[2, field] = len(signature.inputs) + len(allocations)
            allocations.append(_allocation(shape, torch.float32, device, False))
    a, b = place[0, signature.a], place[0, signature.b]
    # Where there is no main store or load, the place behind the last tensor holds None.
    nothing = len(signature.inputs) + len(allocations)
    c = place[0, signature.c] if signature.c else nothing
    d = place[1, signature.d] if signature.d else nothing
    fields = [(nothing if source is None else place[source, name], batch) for source, name, batch in kernel.places]
    joins = [(join, place[2, field], place[1, name]) for join, field, name in kernel.joined]
    gemm, scheduler, transposed = kernel.gemm, kernel.scheduler(device.index), signature.a_transposed
    index = device.index

    def launch(values: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        if _current_device() != index:
            with torch.cuda.device(device):
                return launch(values)
        made = [allocate() for allocate in allocations]
        tensors = (*values, *made, None)
        gemm(
            tensors[a].t() if transposed else tensors[a],
            tensors[b],
            tensors[d],
            tensors[c],
            tuple([tensors[i].unsqueeze(0) if batch else tensors[i] for i, batch in fields]),
            scheduler,
            None,
            None,
            None,
        )
        for join, partials, output in joins:
            join(tensors[partials], tensors[output])
        return tuple(made[:new])

    return launch


def _current_device() -> int:
    return torch._C._cuda_getDevice()


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
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return partial(quick, tuple(shape), tuple(strides), dtype)
