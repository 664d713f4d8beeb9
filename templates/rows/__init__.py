"""Row kernels: what a program does between products besides formulas, row by row or element by element.

One file a kernel, found by looking into this folder and named after it.  Each holds `meaning(*reads, **constants)`,
what it computes on torch tensors of any floating-point dtype, and `launch(*reads, *writes, **constants)`, the Triton
kernel that writes into given tensors on the current stream.  They are ours: reviewed and tested, no candidate's.
Tensors are contiguous; sums are taken in float32 and in a fixed order, so results do not change from run to run.
Triton is imported with the first kernel that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


@dataclass(frozen=True)
class RowKernel:
    """A trusted kernel of ours that works row by row or element by element."""

    meaning: Callable[..., Any]
    """meaning(*reads, **constants): what it computes on tensors; a tensor, or a tuple in the order written."""
    launch: Callable[..., None]
    """launch(*reads, *writes, **constants): on the current stream, into tensors that are there."""


NAMES = tuple(sorted(m.name for m in iter_modules(__path__) if not m.name.startswith("_")))


@cache
def row_kernel(name: str) -> RowKernel:
    """The row kernel of that name. Raises ValueError naming those that there are."""
    if name not in NAMES:
        raise ValueError(f"there is no row kernel {name!r}; known are {', '.join(NAMES)}")
    module = import_module(f".{name}", __package__)
    return RowKernel(module.meaning, module.launch)
