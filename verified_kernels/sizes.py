"""What an operator was given: whether it fits the task, and the sizes of the task's symbols, taken from tensors.

Sizes are plain numbers, or symbolic ones while torch.compile traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..tasks import Task
from ..tasks.quantise import FP8
from ..tasks.tensor import DTYPES
from .errors import InputError

Value = Any
"""A tensor, or a Python number where the task has a scalar."""


_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)


def check_kinds(task: Task, values: Sequence[Value]) -> None:
    """Raise InputError where something else stands than a tensor in ordinary memory, or than a number."""
    traced = torch.compiler.is_dynamo_compiling()  # and then a layout may not be asked for in a backward function
    for (name, tensor), value in zip(task.tensors.items(), values, strict=True):
        if not isinstance(value, torch.Tensor if tensor.dimensions else _NUMBERS):
            wanted = "a tensor" if tensor.dimensions else "a Python number"
            raise InputError(f"{task.name}: {name} is a {type(value).__name__}; pass {wanted}, {tensor}")
        if traced or not isinstance(value, torch.Tensor):
            continue
        if value.is_nested:
            raise InputError(f"{task.name}: {name} is a nested tensor; pass one of shape [{tensor.shape}]")
        if value.is_quantized:
            raise InputError(f"{task.name}: {name} is {value.dtype}; pass {name}.dequantize()")
        if value.layout is not torch.strided:
            raise InputError(f"{task.name}: {name} has the layout {value.layout}; pass {name}.to_dense()")


def check_dtypes(task: Task, values: Sequence[Value]) -> None:
    """Raise InputError where an index is no whole number, or anything else is not of a floating-point dtype that torch
    computes with or that is the operands' fp8."""
    for (name, tensor), value in zip(task.tensors.items(), values, strict=True):
        if not tensor.dimensions:
            continue
        if tensor.is_index and value.dtype not in (torch.int32, torch.int64):
            raise InputError(f"{task.name}: {name} is {value.dtype} and holds indices; convert it to torch.int64")
        if not tensor.is_index and not value.dtype.is_floating_point:
            raise InputError(f"{task.name}: {name} is {value.dtype}; convert it to a floating-point dtype")
        if not tensor.is_index and value.dtype.itemsize == 1 and value.dtype != FP8:
            wanted = FP8 if name in task.fp8 else DTYPES[tensor.dtype or "bf16"]
            raise InputError(f"{task.name}: {name} is {value.dtype}, which no kernel takes; convert it to {wanted}")


def check_devices(task: Task, values: Sequence[Value]) -> None:
    """Raise InputError where tensors lie on different devices."""
    places = {n: v.device for (n, t), v in zip(task.tensors.items(), values, strict=True) if t.dimensions}
    if len(set(places.values())) > 1:
        listed = ", ".join(f"{name} on {device}" for name, device in places.items())
        raise InputError(f"{task.name}: the tensors are on different devices ({listed}); move them to one")


def overlap(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two contiguous tensors share a byte."""
    start, other = one.data_ptr(), two.data_ptr()
    return start < other + two.nbytes and other < start + one.nbytes


def folded(tensor: torch.Tensor) -> bool:
    """Whether several elements may lie at one place, as in an expanded tensor: a write to one would change others."""
    reach = 0  # of the elements along the dimensions so far, how far the last lies behind the first
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def sizes_of(task: Task, values: Sequence[Value]) -> dict[str, int]:
    """Each symbol's size, from the values of the task's tensors in order.

    Raises InputError where ranks or sizes do not fit together.  A reference would often broadcast such
    inputs in silence, so this is an error in every mode.
    """
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}
    for (name, tensor), value in zip(task.tensors.items(), values, strict=True):
        dimensions = tensor.dimensions
        if not dimensions:
            continue
        if value.dim() != len(dimensions):
            raise InputError(f"{task.name}: {name} has shape {list(value.shape)}; give it the shape [{tensor.shape}]")
        for length, dimension in zip(value.shape, dimensions, strict=True):
            if dimension.symbol is not None and dimension.symbol not in sizes:
                if length % dimension.coefficient != 0:
                    raise InputError(
                        f"{task.name}: {name} has shape {list(value.shape)}, and {dimension} = {length} is no multiple "
                        f"of {dimension.coefficient}; give it the shape [{tensor.shape}]"
                    )
                sizes[dimension.symbol] = length // dimension.coefficient
                first[dimension.symbol] = name
            elif length != dimension.size(sizes):
                who, wanted = first.get(dimension.symbol or "", "the task"), dimension.size(sizes)
                raise InputError(
                    f"{task.name}: {name} has shape {list(value.shape)}, and {who} says {dimension} = {wanted}; "
                    f"give it the shape [{tensor.shape}]"
                )
    return sizes
