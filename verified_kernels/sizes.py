"""Sizes of a task's symbols, taken from tensors: plain numbers, or symbolic ones while torch.compile traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks import Task
from .errors import InputError

Value = Any
"""A tensor, or a Python number where the task has a scalar."""


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
