"""Torch operations that move columns: views, slices, pairs taken apart and put together, transposes.

A lane of the kernel holds one pair of adjacent columns, so columns may only be split into the two of each
pair: alternating ones, or the two halves of a tensor whose layout says that it lies in halves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import fx

from ...primitives.graph import EVEN, ODD, PACK
from ...primitives.heads import NARROWEST, WIDEST
from ...primitives.types import FULL, SAME
from .translate import Factor, Index, Lanes, RowNumbers, Translation, Value, handles, shape_of

_OTHER_COLUMNS = (
    "takes columns other than alternating ones, or the halves of a tensor with layout='halves'; a lane of the kernel "
    "holds one pair of adjacent columns"
)


def _unpack(t: Translation, x: Any, halves: bool) -> tuple[Value, Value]:
    x = t.value(x)
    if x.halves != halves:
        if halves:
            raise t.refuse(
                "takes the left or right half of columns that do not lie in halves; declare layout='halves' on the "
                "tensor that they come from"
            )
        raise t.refuse("takes alternating columns of a tensor with layout='halves'; chunk it instead")
    return Value(t.builder.add(EVEN, (x.node,))), Value(t.builder.add(ODD, (x.node,)))


def _pack(t: Translation, even: Any, odd: Any, halves: bool) -> Value:
    parts = [t.value(even), t.value(odd)]
    if any(p.halves for p in parts):
        raise t.refuse("joins columns that lie in halves already")
    return Value(t.builder.add(PACK, tuple(p.node for p in parts)), halves)


@handles("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
def _split(t: Translation, node: fx.Node, x: Any, sizes: Any, dim: int = 0) -> Any:
    shape = shape_of(node.args[0])
    parts = [tuple(v.shape) for v in node.meta["val"]]
    if dim % len(shape) != len(shape) - 1 or len(parts) != 2 or parts[0] != parts[1]:
        raise t.refuse("splits other than columns into two equal halves")
    return _unpack(t, x, halves=True)


@handles("slice")
def _slice(
    t: Translation, node: fx.Node, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    shape = shape_of(node.args[0])
    width = shape[dim]
    first, last, step = slice(start, end, step).indices(width)
    if (first, last, step) == (0, width, 1):
        return x
    if dim % len(shape) != len(shape) - 1:
        raise t.refuse("takes some of the rows; an epilogue computes all of them alike")
    if step == 2 and last == width and first in (0, 1) and width % 2 == 0:
        return _unpack(t, x, halves=False)[first]
    if step == 1 and (first, last) in ((0, width // 2), (width // 2, width)) and width % 2 == 0:
        return _unpack(t, x, halves=True)[first > 0]
    raise t.refuse(_OTHER_COLUMNS)


@handles("select")
def _select(t: Translation, node: fx.Node, x: Any, dim: int, index: int) -> Any:
    shape = shape_of(node.args[0])
    if isinstance(x, Lanes) and dim % len(shape) == len(shape) - (1 if x.last else 2):
        return (x.even, x.odd)[index]
    if shape[dim] == 1:
        return x
    raise t.refuse(_OTHER_COLUMNS if dim % len(shape) else "takes one row; an epilogue computes all of them alike")


@handles("unbind")
def _unbind(t: Translation, node: fx.Node, x: Any, dim: int = 0) -> Any:
    ndim = len(shape_of(node.args[0]))
    if not isinstance(x, Lanes) or dim % ndim != ndim - (1 if x.last else 2):
        raise t.refuse("takes single rows or columns")
    return x.even, x.odd


@handles("stack")
def _stack(t: Translation, node: fx.Node, parts: Any, dim: int = 0) -> Any:
    ndim = len(shape_of(node))
    place = dim % ndim
    if len(parts) != 2 or place < ndim - 2:
        raise t.refuse("stacks other than two values as pairs of columns")
    return Lanes(t.value(parts[0]), t.value(parts[1]), last=place == ndim - 1)


@handles("cat", "concat")
def _cat(t: Translation, node: fx.Node, parts: Any, dim: int = 0) -> Any:
    ndim = len(shape_of(node))
    if len(parts) != 2 or dim % ndim != ndim - 1:
        raise t.refuse("joins other than two halves of the columns")
    return _pack(t, parts[0], parts[1], halves=True)


@handles("view", "reshape", "_unsafe_view", "_reshape_alias", "flatten", "unflatten")
def _view(t: Translation, node: fx.Node, x: Any, *args: Any) -> Any:
    old, new = shape_of(node.args[0]), shape_of(node)
    if isinstance(x, Lanes):
        if new == (*old[:-2], old[-2] * old[-1]):
            return _pack(t, x.even, x.odd, halves=not x.last)
        if new == old:
            return x
        raise t.refuse("reshapes pairs other than back into columns")
    if isinstance(x, Factor):
        if new == old:
            return x
        raise t.refuse(f"reshapes {x.name} before the product; give it the shape that the product needs")
    if [s for s in old if s != 1] == [s for s in new if s != 1]:
        return x
    if isinstance(x, Value) and x.head and new[-1] == old[-2] * old[-1] == t.columns:
        return replace(x, head=0)
    if new[:-2] == old[:-1] and new[-2] * new[-1] == old[-1] and isinstance(x, Value) and t.kind(x).cols != SAME:
        if new[-1] == 2:
            return Lanes(*_unpack(t, x, halves=False), last=True)
        if new[-2] == 2:
            return Lanes(*_unpack(t, x, halves=True), last=False)
        if t.kind(x).cols == FULL and not x.halves and new[-1] % NARROWEST == 0 and new[-1] <= WIDEST:
            return replace(x, head=new[-1])
    raise t.refuse(
        f"reshapes columns into groups other than pairs, or heads of whole {NARROWEST}s up to {WIDEST} columns that "
        "are adjacent; a lane holds one pair of columns"
    )


@handles("unsqueeze", "squeeze", "expand", "broadcast_to")
def _broadcast(t: Translation, node: fx.Node, x: Any, *args: Any, **options: Any) -> Any:
    """Axes of length one: vectors broadcast by their kind."""
    if isinstance(x, Value | Index | RowNumbers):
        return x
    if isinstance(x, Lanes) and shape_of(node) == shape_of(node.args[0]):
        return x
    if isinstance(x, Factor):
        raise t.refuse(f"reshapes {x.name} before the product; write the product as a @ b of two matrices")
    raise t.refuse("adds a dimension to pairs; take them apart with unbind first")


@handles("t", "transpose", "permute", "numpy_T")
def _transpose(t: Translation, node: fx.Node, x: Any, *args: Any) -> Any:
    ndim = len(shape_of(node.args[0]))
    if ndim < 2 or (t.name == "permute" and list(args[0]) == list(range(ndim))):
        return x
    if isinstance(x, Factor) and ndim == 2:
        return Factor(x.name, not x.transposed)
    raise t.refuse("transposes a value of the epilogue, whose rows and columns are the product's")
