"""What is wrong with a wrong output, in one phrase: where the wrong elements lie and what they are instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ..tasks.layout import deinterleave, interleave
from ..tasks.task import Task

_SIDE = 512
"""Patterns of values are looked for in at most this many rows and columns, around the wrong ones."""
_MOVED = 2**21
"""Elements in which moved columns are looked for: whole rows, so fewer of them the longer they are."""
_CHUNK = 2**23
_TILE_ROWS = (64, 128, 192, 256)
_TILE_COLS = (128, 160, 192, 256)
_MATCH = 0.995
"""Share of elements that must agree for a pattern to be named."""


def diagnose(
    name: str,
    actual: torch.Tensor,
    oracle: torch.Tensor,
    task: Task | None = None,
    *,
    variants: Mapping[str, torch.Tensor] | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Compare an output that failed with the oracle; both of one shape, a vector or a matrix.

    task: names the output's dimensions in the task's words.
    variants: what the output would be after a likely mistake, by the words for it, such as "without bias".
    tolerance: the error below which an element counts as right; by default 8 units in the last place of
        its own dtype, of the element and of the oracle's root mean square.

    Returns output, elements, wrong (count), share, worst (index, value, expected), max_error,
    max_relative (to the oracle's largest magnitude) and pattern, the phrase; "" if nothing is wrong.
    """
    a, o = _matrix(actual), _matrix(oracle)
    seen = _Survey(a, o, tolerance)
    variants = {k: _matrix(v) for k, v in (variants or {}).items() if v.shape == oracle.shape}
    pattern = _pattern(a, o, seen, variants, _axes(name, oracle, task)) if seen.wrong else ""
    row, col = seen.worst
    index = [row, col] if oracle.ndim == 2 else [col]
    return {
        "output": name,
        "elements": oracle.numel(),
        "wrong": seen.wrong,
        "share": seen.wrong / max(oracle.numel(), 1),
        "worst": {"index": index, "value": float(a[row, col]), "expected": float(o[row, col])},
        "max_error": seen.max_error,
        "max_relative": seen.max_error / seen.scale if seen.scale else None,
        "pattern": pattern,
    }


class _Survey:
    """Which elements are wrong: counts by row and column, the worst one; taken over blocks of rows."""

    def __init__(self, a: torch.Tensor, o: torch.Tensor, tolerance: float | None):
        self.relative = 0.0 if tolerance is not None else 8 * torch.finfo(a.dtype).eps
        squares = count = 0.0
        self.scale = 0.0
        for _, block in _blocks(o):
            finite = torch.where(torch.isfinite(block), block, 0.0).double()
            squares, count = squares + float((finite * finite).sum()), count + block.numel()
            self.scale = max(self.scale, float(finite.abs().amax()))
        self.absolute = tolerance if tolerance is not None else self.relative * (squares / max(count, 1)) ** 0.5
        rows, self.cols = [], torch.zeros(a.shape[1], dtype=torch.int64, device=a.device)
        self.worst, self.max_error, worst = (0, 0), 0.0, -1.0
        for start, block in _blocks(o):
            part = a[start : start + block.shape[0]]
            bad = self.differs(part, block)
            rows.append(bad.sum(1))
            self.cols += bad.sum(0)
            error = (part.double() - block.double()).abs()
            self.max_error = max(self.max_error, float(torch.where(torch.isfinite(error), error, 0.0).amax()))
            error = torch.where(bad, error.nan_to_num(nan=torch.inf), -1.0)
            if float(error.amax()) > worst:
                worst, place = float(error.amax()), int(error.argmax())
                self.worst = (start + place // a.shape[1], place % a.shape[1])
        self.rows = torch.cat(rows)
        self.wrong = int(self.cols.sum())

    def differs(self, a: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        """Elements that are not the same within the tolerance; NaN is the same as NaN."""
        a, o = a.double(), o.double()
        near = (a - o).abs() <= self.absolute + self.relative * torch.minimum(a.abs(), o.abs())
        return ~(near | (a == o) | (a.isnan() & o.isnan()))

    def same(self, a: torch.Tensor, o: torch.Tensor) -> bool:
        return a.numel() > 0 and float(self.differs(a, o).double().mean()) <= 1 - _MATCH


def _pattern(
    a: torch.Tensor, o: torch.Tensor, seen: _Survey, variants: dict[str, torch.Tensor], axes: tuple[str, str]
) -> str:
    rows, cols = _window(seen.rows), _window(seen.cols)
    part, exact = a[rows, cols], o[rows, cols]
    bad = seen.differs(part, exact)
    some = {k: v[rows, cols] for k, v in variants.items()}
    if seen.wrong > o.numel() // 4 and (moved := _moved(a, o, seen)):
        return moved
    place = _region(seen, axes)
    if not place and (whole := _values(part, exact, torch.ones_like(bad), seen, some)):
        return whole
    inside = _values(part, exact, bad, seen, some)
    if place and inside:
        return f"{place}: {inside}"
    if place or inside:
        return place or f"{inside} in {seen.wrong} elements"
    error = (part.double() - exact.double())[torch.isfinite(part) & torch.isfinite(exact)]
    if seen.scale and float(error.square().mean().sqrt()) < 0.02 * seen.scale:
        return f"close but not equal: max relative difference {seen.max_error / seen.scale:.1g}"
    return ""


# --- what the values are ---------------------------------------------------------------------------


def _values(
    part: torch.Tensor, exact: torch.Tensor, where: torch.Tensor, seen: _Survey, variants: dict[str, torch.Tensor]
) -> str:
    """What the elements are instead of the oracle's, if one phrase says it."""
    a, o = part[where].double(), exact[where].double()
    if not a.numel():
        return ""
    nan = a.isnan() & ~o.isnan()
    if bool(nan.any()):
        return "all NaN" if bool(nan.all()) else f"NaN in {int(nan.sum())} of {a.numel()} elements looked at"
    if bool((a == 0).all()):
        return "all zero"
    for words, value in variants.items():
        if seen.same(a, value[where].double()):
            return f"equals the reference {words}" if words.startswith("with") else f"equals {words}"
    if seen.same(a, -o):
        return "the sign is flipped"
    wild = a.isinf() & torch.isfinite(o)
    if bool(wild.any()):
        return (
            "all infinite" if bool(wild.all()) else f"infinite in {int(wild.sum())} of {a.numel()} elements looked at"
        )
    finite = torch.isfinite(a) & torch.isfinite(o)
    a, o = a[finite], o[finite]
    if a.numel() >= 4 and float(o.square().sum()) > 0:
        factor = float((a * o).sum() / o.square().sum())
        if abs(factor) > 1e-6 and seen.same(a / factor, o):
            return f"a constant factor of {factor:.6g}"
        offset = float((a - o).mean())
        if seen.same(a - offset, o) and float(o.std()) > 0:
            return f"a constant offset of {offset:.6g}"
        if float(a.std()) == 0:
            return f"the constant {float(a[0]):.6g}"
    return ""


def _moved(a: torch.Tensor, o: torch.Tensor, seen: _Survey) -> str:
    """Whether the right values stand in the wrong places."""
    m, n = o.shape
    if m > 1 and n > 1:
        h, w = min(m, _SIDE), min(n, _SIDE)
        if m == n and seen.same(a[:h, :w], o.T[:h, :w]):
            return "transposed"
        if m != n and seen.same(a.reshape(n, m).T[:h, :w], o[:h, :w]):
            return "transposed in memory: written column after column"
    few = min(_SIDE, max(_MOVED // n, 16))
    for words, move in _moves():
        got = move(a[:few], o[:few])
        if got is not None and seen.same(*got):
            return words
    return ""


Pair = tuple[torch.Tensor, torch.Tensor] | None


def _moves() -> Iterator[tuple[str, Callable[[torch.Tensor, torch.Tensor], Pair]]]:
    def even(move: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor, torch.Tensor], Pair]:
        return lambda a, o: (move(a), o) if o.shape[1] > 2 and o.shape[1] % 2 == 0 else None

    def shift(dim: int, by: int) -> Callable[[torch.Tensor, torch.Tensor], Pair]:
        def pair(a: torch.Tensor, o: torch.Tensor) -> Pair:
            size = o.shape[dim] - by
            if size < 2:
                return None
            return a.narrow(dim, by, size), o.narrow(dim, 0, size)

        return pair

    yield "even and odd columns are exchanged", even(lambda a: a.unflatten(1, (-1, 2)).flip(2).flatten(1))
    yield "columns lie as halves (all even, then all odd) instead of pairs", even(interleave)
    yield "columns lie as pairs (even, odd, even, odd) instead of halves", even(deinterleave)
    for dim, word in ((1, "column"), (0, "row")):
        for by in (1, 2, 8):
            count = f"a {word}" if by == 1 else f"{by} {word}s"
            yield f"shifted by {count} towards the end", shift(dim, by)
            yield f"shifted by {count} towards the start", _swapped(shift(dim, by))


def _swapped(pair: Callable[[torch.Tensor, torch.Tensor], Pair]) -> Callable[[torch.Tensor, torch.Tensor], Pair]:
    def other(a: torch.Tensor, o: torch.Tensor) -> Pair:
        got = pair(o, a)
        return None if got is None else (got[1], got[0])

    return other


# --- where they lie --------------------------------------------------------------------------------


def _region(seen: _Survey, axes: tuple[str, str]) -> str:
    """The part of the output that holds every wrong element; "" if they lie everywhere."""
    (m, n), (row_word, col_word) = (len(seen.rows), len(seen.cols)), axes
    odd, even = int(seen.cols[1::2].sum()), int(seen.cols[0::2].sum())
    if n > 2 and not (odd and even) and int((seen.cols > 0).sum()) > n // 4:
        return f"wrong in {'odd' if odd else 'even'} {col_word}s only"
    rows, cols = _span(seen.rows), _span(seen.cols)
    whole_rows, whole_cols = rows == (0, m) or m == 1, cols == (0, n) or n == 1
    tile = _tile(rows, cols, m, n)
    if tile and not whole_rows and not whole_cols:
        return tile
    parts = [_stretch(*rows, m, row_word)] if not whole_rows else []
    parts += [_stretch(*cols, n, col_word)] if not whole_cols else []
    parts = [p for p in parts if p]
    return f"wrong in {' and '.join(parts)} only" if parts else ""


def _stretch(first: int, end: int, size: int, word: str) -> str:
    """Words for first..end-1 of size; "" where it says little."""
    if end - first == 1:
        return f"{word} {first}"
    if end == size and first:
        ragged = size - first < 256 and any(size % t == size - first for t in (*_TILE_ROWS, *_TILE_COLS))
        return f"the last {size - first} {word}s" + (" (the ragged edge)" if ragged else f", from {word} {first} on")
    if end - first > 0.9 * size:
        return ""
    return f"{word}s {first} to {end - 1}"


def _tile(rows: tuple[int, int], cols: tuple[int, int], m: int, n: int) -> str:
    """The tile of a schedule that the wrong elements fill, if they fill one."""
    for height in _TILE_ROWS:
        for width in _TILE_COLS:
            top, left = rows[0] // height * height, cols[0] // width * width
            inside = rows[1] <= top + height and cols[1] <= left + width
            filled = rows[1] - rows[0] > 0.9 * (min(top + height, m) - top) and cols[1] - cols[0] > 0.9 * (
                min(left + width, n) - left
            )
            if inside and filled:
                return f"wrong in one tile only, rows {rows[0]} to {rows[1] - 1}, columns {cols[0]} to {cols[1] - 1}"
    return ""


# --- sizes and pieces ------------------------------------------------------------------------------


def _matrix(t: torch.Tensor) -> torch.Tensor:
    return t if t.ndim == 2 else t.reshape(1, -1)


def _axes(name: str, oracle: torch.Tensor, task: Task | None) -> tuple[str, str]:
    """What the matrix' two directions are called; a vector's only one may run along rows."""
    tensor = task.outputs.get(name) if task is not None else None
    if oracle.ndim == 1:
        along_rows = task is not None and tensor is not None and tensor.dimensions[0] == task.m
        return "row", "row" if along_rows else ("column" if tensor is not None else "element")
    return "row", "column"


def _blocks(t: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    step = max(_CHUNK // max(t.shape[1], 1), 1)
    for start in range(0, t.shape[0], step):
        yield start, t[start : start + step]


def _span(counts: torch.Tensor) -> tuple[int, int]:
    """First index with a wrong element, and one after the last."""
    places = counts.nonzero()
    return int(places[0]), int(places[-1]) + 1


def _window(counts: torch.Tensor) -> slice:
    """A stretch of at most _SIDE that begins with the first wrong index, or a little before the end."""
    first, _ = _span(counts)
    start = min(first - first % 2, max(len(counts) - _SIDE, 0))
    return slice(start, start + _SIDE)
