"""Halves and pairs: how a tensor of the task lies, against how the kernel sees it.

A kernel's paired columns always alternate (even, odd, even, odd, ...).  A task may hold a tensor as halves
instead: all even columns, then all odd ones, as checkpoints do.  The template relabels such a tensor without
moving it; whoever computes with the kernel's view on plain tensors moves it with the functions here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .task import Task


def interleave(t: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """From halves to pairs: [e0, e1, ..., o0, o1, ...] becomes [e0, o0, e1, o1, ...] along dim."""
    dim = dim % t.ndim
    even, odd = t.chunk(2, dim)
    return torch.stack((even, odd), dim + 1).flatten(dim, dim + 1)


def deinterleave(t: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """From pairs to halves: the inverse of `interleave`."""
    dim = dim % t.ndim
    even, odd = t.unflatten(dim, (-1, 2)).unbind(dim + 1)
    return torch.cat((even, odd), dim)


def to_kernel(task: Task, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The kernel's view of an input, an output, or the accumulator ("acc"): halves become pairs.

    Tensors that are not laid out as halves come back as they are.
    """
    dim = _halves_dim(task, name)
    return tensor if dim is None else interleave(tensor, dim)


def from_kernel(task: Task, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The task's view of a tensor that the kernel sees: the inverse of `to_kernel`."""
    dim = _halves_dim(task, name)
    return tensor if dim is None else deinterleave(tensor, dim)


def accumulator(task: Task, inputs: Mapping[str, torch.Tensor | float]) -> torch.Tensor:
    """The product in the inputs' dtype, as the epilogue sees it: [M, N], paired columns alternating."""
    a, b = torch.as_tensor(inputs[task.gemm.a]), torch.as_tensor(inputs[task.gemm.b])
    a, b = a.T if task.gemm.a_transposed else a, b.T if task.gemm.b_transposed else b
    return to_kernel(task, "acc", a @ b)


def _halves_dim(task: Task, name: str) -> int | None:
    """Along which dimension the tensor holds halves, if it does."""
    if name == "acc":
        return -1 if task.tensors[task.gemm.b].layout == "halves" else None
    tensor = task.outputs.get(name) or task.tensors[name]
    if tensor.layout != "halves":
        return None
    if name == task.gemm.b:
        return 0 if task.gemm.b_transposed else 1
    return -1
