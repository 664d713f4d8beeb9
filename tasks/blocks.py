"""The float64 oracle in blocks of the product's rows, for products too large to hold in float64 several times.

Which tensors are cut follows from the shapes: all that have the rows' symbol, once each.  Whether the reference
allows it, they do not say: it may look at absolute row numbers, or divide by their count.  So it is tried: on two
workloads that are small, yet one has all the rows, cut where they will be, and the other the full widths, the
pieces must give the whole.  They also tell how an output without rows, a reduction over them, is put together
from those of the blocks.  Where no way is found, the oracle is computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING

import torch

from .errors import TaskError
from .inputs import Inputs, draw
from .oracle import cast, oracle, sizes_of
from .tensor import Tensor

if TYPE_CHECKING:
    from .task import Task

MOST = 2**26
"""Elements of a block's widest tensor: half a gigabyte in float64, of which a reference holds several."""
_SAME = 1e-9
"""Of an output's scale: a sum in another order differs by far less, another answer by more."""
_WAYS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
}

Index = tuple[slice, ...] | EllipsisType

_tried: dict[tuple, dict[str, str] | None] = {}


def pieces(task: Task, inputs: Inputs, most: int = MOST) -> Iterator[tuple[str, Index, torch.Tensor]]:
    """The oracle's outputs piece by piece: name, which part of the output it is, float64 values.

    Together the pieces are what `oracle` gives; at most `most` elements of a tensor with rows are held at a time,
    where the task can be cut.  Raises as `oracle` does.
    """
    sizes = sizes_of(task, inputs)
    step = _step(task, sizes, most)
    ways = None if step is None else _ways(task, sizes, step, _device(inputs))
    if step is None or ways is None:
        for name, value in oracle(task, inputs).items():
            yield name, ..., value
        return
    yield from _cut(task, inputs, sizes[str(task.m.symbol)], step, ways)


def whole(task: Task, inputs: Inputs, name: str, most: int = MOST) -> torch.Tensor:
    """One of the oracle's outputs, of which no other is held."""
    size = task.outputs[name].size(sizes_of(task, inputs))
    result = torch.empty(size, dtype=torch.float64, device=_device(inputs))
    for found, where, values in pieces(task, inputs, most):
        if found == name:
            result[where] = values
    return result


def blind_to_rows(task: Task) -> bool:
    """Whether the reference answers for a row what it answers wherever that row stands, as tried on small workloads."""
    _, _, other, *_ = task.correctness_workloads()
    step = max(other.sizes.get(str(task.m.symbol), 0) // 3 // 8 * 8, 8)
    if _step(task, other.sizes, 1) is None:
        return False
    return _ways(task, other.sizes, step, torch.device("cpu")) is not None


def _step(task: Task, sizes: dict[str, int], most: int) -> int | None:
    """How many of the rows' symbol a block has; None if there is only one block, or the shapes cannot be cut."""
    symbol = task.m.symbol
    tensors = task.everything.values()
    if symbol is None or any([d.symbol for d in t.dimensions].count(symbol) > 1 for t in tensors):
        return None
    one = {**sizes, symbol: 1}
    widest = max(torch.Size(t.size(one)).numel() for t in tensors if symbol in t.symbols)
    step = max(most // widest // 128 * 128 or most // widest // 8 * 8, 8)  # of whatever unit a symbol has to be
    return step if step < sizes[symbol] else None


def _cut(task: Task, inputs: Inputs, rows: int, step: int, ways: dict[str, str]) -> Iterator:
    symbol = str(task.m.symbol)
    cut = {n: t for n, t in task.tensors.items() if symbol in t.symbols}
    fixed = cast({n: v for n, v in inputs.items() if n not in cut}, torch.float64)
    reduced: dict[str, torch.Tensor] = {}
    for start in range(0, rows, step):
        end = min(start + step, rows)
        block = {n: torch.as_tensor(inputs[n])[_index(t, symbol, start, end)] for n, t in cut.items()}
        answer = oracle(task, {n: block[n] if n in block else fixed[n] for n in inputs})
        for name in list(answer):
            value, tensor = answer.pop(name), task.outputs[name]
            if symbol in tensor.symbols:
                yield name, _index(tensor, symbol, start, end), value
            else:
                reduced[name] = _WAYS[ways[name]](reduced[name], value) if name in reduced else value
    for name, value in reduced.items():
        yield name, ..., value


def _index(tensor: Tensor, symbol: str, start: int, end: int) -> tuple[slice, ...]:
    return tuple(
        slice(start * d.coefficient, end * d.coefficient) if d.symbol == symbol else slice(None)
        for d in tensor.dimensions
    )


def _ways(task: Task, sizes: dict[str, int], step: int, device: torch.device) -> dict[str, str] | None:
    """How each output without rows is made of its blocks', as tried once; None if the task cannot be cut."""
    key = (task.digest, tuple(sorted(sizes.items())), step, device)
    if key not in _tried:
        _tried[key] = _try(task, sizes, step, device)
    return _tried[key]


def _try(task: Task, sizes: dict[str, int], step: int, device: torch.device) -> dict[str, str] | None:
    symbol, (plain, _, other, *_) = str(task.m.symbol), task.correctness_workloads()
    few = min(other.sizes[symbol], sizes[symbol])
    depth, outside = task.k.symbol, {s for t in task.outputs.values() for s in t.symbols}
    shallow = {} if depth is None or depth in outside else {depth: min(plain.sizes[depth], sizes[depth])}
    tall = plain.model_copy(update={"sizes": {**plain.sizes, symbol: sizes[symbol]}})
    wide = other.model_copy(update={"sizes": {**sizes, **shallow, symbol: few}})
    left = {n: dict(_WAYS) for n, t in task.outputs.items() if symbol not in t.symbols}
    try:
        for workload, rows in ((tall, step), (wide, max(few // 3 // 8 * 8, 8))):
            inputs = draw(task, workload, device)
            expected = oracle(task, inputs)
            for way in _WAYS if left else ("sum",):
                for name, where, values in _cut(task, inputs, workload.sizes[symbol], rows, dict.fromkeys(left, way)):
                    if _same(values, expected[name], where):
                        continue
                    if name not in left:
                        return None
                    left[name].pop(way, None)
    except TaskError:  # a reference that asks for a certain count of rows, say
        return None
    return {n: next(iter(ways)) for n, ways in left.items()} if all(left.values()) else None


def _same(values: torch.Tensor, expected: torch.Tensor, where: Index) -> bool:
    scale = float(torch.where(expected.isfinite(), expected, 0.0).abs().amax())
    return torch.allclose(values, expected[where], rtol=_SAME, atol=_SAME * scale, equal_nan=True)


def _device(inputs: Inputs) -> torch.device:
    return next(v.device for v in inputs.values() if isinstance(v, torch.Tensor))
