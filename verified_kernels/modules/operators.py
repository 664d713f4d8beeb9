"""The operators behind modules: loaded once a process, however many layers a model has."""

from __future__ import annotations

import warnings
from functools import cache

import torch

from ...tasks.tensor import DTYPES
from ..errors import FallbackWarning
from ..load import load
from ..operator import Operator


@cache
def operator(*names: str) -> Operator:
    """The first of these tasks' operators that has a kernel; the first, with its reference, if none has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # the operator says so itself when it is called
        loaded = [load(name) for name in names]
    return next((op for op in loaded if op.entry), loaded[0])


@cache
def trained_in(program: Operator) -> tuple[torch.dtype, ...]:
    """The dtypes in which this program has kernels for itself and for its gradient."""
    back = program.gradient
    if program.entry is None or back is None or back.entry is None:
        return ()
    return tuple(DTYPES[s] for s in program.entry.record.storages if s in back.entry.record.storages)


def training(dtypes: tuple[torch.dtype, ...], x: torch.Tensor, *weights: torch.Tensor) -> bool:
    """Whether a gradient is wanted, and the dtype at hand is one of these."""
    if not dtypes or not torch.is_grad_enabled() or not any(t.requires_grad for t in (x, *weights)):
        return False
    kind = x.device.type
    return (torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype) in dtypes
