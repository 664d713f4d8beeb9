"""Which sizes the template can run, and the ragged ones on which a kernel is checked.

The kernel moves matrices in pieces of 16 bytes, so the contiguous extent of each must be a multiple of
8 elements of 16 bits, of 16 of 8 bits, or of 4 float32 elements.  Vectors, one element a row, have any length.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .tensor import FP8_ALIGNMENT, Dimension, Tensor
from .workload import FAMILIES, Workload

if TYPE_CHECKING:
    from .task import Task

# Near these sizes: rows of one, few, a whole tile, and no multiple of one; widths and depths ragged under every
# tile of 64 to 256; the smallest legal width; one of each family, then two more of the ordinary one.
_RAGGED = (
    (16, 200, 72, "normal"),
    (1, 1, 64, "integers"),
    (128, 264, 136, "mixed"),
    (1000, 520, 264, "outliers"),
    (77, 1032, 520, "large"),
    (257, 392, 1000, "sparse"),
    (384, 776, 328, "tiny"),
    (1031, 1544, 200, "normal"),
    (130, 72, 2056, "integers"),
)


def legal(task: Task, sizes: dict[str, int], storage: str = "bf16") -> str | None:
    """Why the template cannot run these sizes, in one sentence of the task's words; None if it can."""
    missing = [s for s in task.symbols if s not in sizes]
    if missing:
        return f"no size is given for {missing[0]}; give one for each of {', '.join(task.symbols)}"
    for symbol in task.symbols:
        if sizes[symbol] < 1:
            return f"{symbol} is {sizes[symbol]}; give every symbol a size of 1 or more"
    for name, tensor in _tensors(task):
        step = _step(task, name, tensor, storage)
        dimension = tensor.dimensions[-1] if tensor.dimensions else None
        if dimension is not None and dimension.size(sizes) % step:
            return (
                f"{name} has {dimension.size(sizes)} contiguous elements ({dimension}), and the kernel moves {step} of "
                f"them at a time; {_remedy(dimension, step)}"
            )
    return None


def correctness_workloads(task: Task, storage: str = "bf16") -> tuple[Workload, ...]:
    """Small ragged workloads, the input families in turn; all of them legal.

    The first is small and ordinary; every family occurs.
    """
    task.check_storage(storage)
    steps = {symbol: symbol_step(task, symbol, storage) for symbol in task.symbols}
    workloads = []
    for seed, (m, n, k, family) in enumerate(_RAGGED):
        sizes = {}
        for symbol in task.symbols:
            side: float = k
            if symbol == task.n.symbol:
                side = n / task.n.coefficient
            elif symbol == task.m.symbol:
                side = m / task.m.coefficient
            elif symbol == task.k.symbol:
                side = k / task.k.coefficient
            step = steps[symbol]
            if symbol == task.k.symbol:
                step = math.lcm(step, 8 // math.gcd(8, task.k.coefficient))
            count = max(round(side / step), 1)
            if symbol == task.n.symbol and count > 1:
                count |= 1  # an odd multiple: ragged under every tile
            if symbol == task.k.symbol and storage == "fp8":
                count |= 1  # and here no multiple of the 128 that a tile is deep
            sizes[symbol] = count * step
        workload = {"sizes": sizes, "storage": storage, "family": family, "seed": seed}
        workloads.append(Workload.model_validate(workload))
    assert {w.family for w in workloads} == set(FAMILIES)
    return tuple(workloads)


def _tensors(task: Task) -> list[tuple[str, Tensor]]:
    """By name, an accumulated output once."""
    return list(task.everything.items())


def _step(task: Task, name: str, tensor: Tensor, storage: str) -> int:
    """Of what the contiguous extent must be a multiple."""
    dims = tensor.dimensions
    if not dims or (len(dims) == 1 and dims[0] == task.m):
        return 1
    if task.dtype_of(name, storage) == "fp8":
        return FP8_ALIGNMENT
    return {"f32": 4, "i32": 4, "i64": 2, "f64": 2}.get(tensor.dtype or "", 8)


def symbol_step(task: Task, symbol: str, storage: str = "bf16") -> int:
    """The smallest number of which every legal size of the symbol is a multiple."""
    steps = [1]
    for name, tensor in _tensors(task):
        if tensor.dimensions and tensor.dimensions[-1].symbol == symbol:
            step = _step(task, name, tensor, storage)
            steps.append(step // math.gcd(step, tensor.dimensions[-1].coefficient))
    return math.lcm(*steps)


def _remedy(dimension: Dimension, step: int) -> str:
    if dimension.symbol is None:
        return f"use a multiple of {step}"
    return f"make {dimension.symbol} a multiple of {step // math.gcd(step, dimension.coefficient)}"
