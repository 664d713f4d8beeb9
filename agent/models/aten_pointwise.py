"""Torch operations on single elements, the product itself, and reductions, as primitives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import fx

from ...primitives.graph import HEAD_SUM
from .translate import Factor, Index, RowNumbers, Translation, Value, handles, shape_of

_SAME = ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "erf", "sin", "cos", "sigmoid", "silu")
_ALIKE = ("relu", "maximum", "minimum", "logical_and", "logical_or", "mul")
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


def _same(name: str, op: str) -> None:
    @handles(name)
    def apply(t: Translation, node: fx.Node, *args: Any) -> Value:
        return t.apply(op, *args)


for _name in (*_SAME, *_ALIKE):
    _same(_name, _name)


def _compare(name: str) -> None:
    @handles(name)
    def apply(t: Translation, node: fx.Node, *args: Any) -> Value:
        """Column numbers are no values, but they may be compared."""
        return t.apply(name, *(Value(a.node) if isinstance(a, Index) else a for a in args))


for _name in _COMPARE:
    _compare(_name)
_same("bitwise_and", "logical_and")
_same("bitwise_or", "logical_or")
_same("__and__", "logical_and")
_same("__or__", "logical_or")


@handles("add")
def _add(t: Translation, node: fx.Node, a: Any, b: Any, alpha: Any = 1) -> Value:
    return t.apply("add", a, b if alpha == 1 else t.apply("mul", alpha, b))


@handles("sub")
def _sub(t: Translation, node: fx.Node, a: Any, b: Any, alpha: Any = 1) -> Value:
    return t.apply("sub", a, b if alpha == 1 else t.apply("mul", alpha, b))


@handles("rsub")
def _rsub(t: Translation, node: fx.Node, a: Any, b: Any, alpha: Any = 1) -> Value:
    return t.apply("sub", b, a if alpha == 1 else t.apply("mul", alpha, a))


@handles("div")
def _div(t: Translation, node: fx.Node, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    if rounding_mode is not None:
        raise t.refuse("rounds its result, for which there is no primitive")
    return t.apply("div", a, b)


@handles("square")
def _square(t: Translation, node: fx.Node, x: Any) -> Value:
    return t.apply("mul", x, x)


@handles("pow")
def _pow(t: Translation, node: fx.Node, x: Any, exponent: Any) -> Value:
    if isinstance(exponent, int | float):
        root = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
        if root:
            return t.apply(root, x)
        if exponent == 1:
            return t.value(x)
        if exponent in (2, 3, 4):
            square = t.apply("mul", x, x)
            return square if exponent == 2 else t.apply("mul", square, x if exponent == 3 else square)
    raise t.refuse("has an exponent other than 2, 3, 4, 0.5, -0.5 or -1")


@handles("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(t: Translation, node: fx.Node, x: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    low, high = named.get("min", low), named.get("max", high)
    if t.name.startswith("clamp_max"):
        low, high = None, low
    if isinstance(x, Index):
        return x  # rows whose number lies outside have no column: select leaves them alone
    if low is None or high is None:
        return t.apply("minimum", x, high) if low is None else t.apply("maximum", x, low)
    return t.apply("clamp", x, low, high)


@handles("where")
def _where(t: Translation, node: fx.Node, condition: Any, a: Any, b: Any) -> Value:
    return t.apply("where", condition, a, b)


@handles("masked_fill")
def _masked_fill(t: Translation, node: fx.Node, x: Any, mask: Any, value: Any) -> Value:
    return t.apply("where", mask, value, x)


@handles("gelu")
def _gelu(t: Translation, node: fx.Node, x: Any, approximate: str = "none") -> Value:
    return t.apply("gelu_tanh" if approximate == "tanh" else "gelu", x)


@handles("softplus")
def _softplus(t: Translation, node: fx.Node, x: Any, beta: float = 1, threshold: float = 20) -> Value:
    if beta != 1 or threshold < 20:
        raise t.refuse("has a beta or threshold of its own; the primitive has beta 1")
    return t.apply("softplus", x)


@handles("full", "full_like", "new_full")
def _full(t: Translation, node: fx.Node, shape: Any, value: Any, *rest: Any, **options: Any) -> Value:
    return t.const(rest[0] if t.name == "new_full" else value)


@handles("scalar_tensor")
def _scalar(t: Translation, node: fx.Node, value: Any, **options: Any) -> Value:
    return t.const(value)


@handles("zeros", "zeros_like", "new_zeros")
def _zeros(t: Translation, node: fx.Node, *args: Any, **options: Any) -> Value:
    return t.const(0.0)


@handles("ones", "ones_like", "new_ones")
def _ones(t: Translation, node: fx.Node, *args: Any, **options: Any) -> Value:
    return t.const(1.0)


@handles("clone", "detach", "alias", "contiguous", "lift_fresh_copy", "lift_fresh", "positive")
def _unchanged(t: Translation, node: fx.Node, x: Any, **options: Any) -> Any:
    return x


@handles("_to_copy", "to")
def _cast(t: Translation, node: fx.Node, x: Any, **options: Any) -> Any:
    """Casts between floating-point dtypes say nothing here: an epilogue computes in float32."""
    if isinstance(x, Value) and t.kind(x).dtype == "bool" and node.meta["val"].is_floating_point():
        return t.apply("where", x, 1.0, 0.0)
    if isinstance(x, Value) and t.kind(x).dtype == "f32" and not node.meta["val"].is_floating_point():
        raise t.refuse("makes whole numbers of values, for which there is no primitive")
    if isinstance(x, Index) and node.meta["val"].is_floating_point():
        raise t.refuse("makes values of column numbers, which only pick a column (gather)")
    return x


# --- the product ----------------------------------------------------------------------------------


@handles("mm", "matmul")
def _product(t: Translation, node: fx.Node, a: Any, b: Any) -> Value:
    for side in (a, b):
        if not isinstance(side, Factor):
            names = f"{t.task.gemm.a} and {t.task.gemm.b}"
            raise t.refuse(
                f"multiplies matrices other than {names} themselves; a task has one product, of its operands"
            )
    gemm = t.task.gemm
    if (a, b) != (Factor(gemm.a, gemm.a_transposed), Factor(gemm.b, gemm.b_transposed)):
        found = " @ ".join(f.name + ".T" * f.transposed for f in (a, b))
        raise t.refuse(f"computes {found}, and the task declares the product {gemm}")
    return Value(t.builder.acc(), t.task.tensors[gemm.b].layout == "halves")


@handles("addmm")
def _addmm(t: Translation, node: fx.Node, bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Value:
    product = _product(t, node, a, b)
    product = product if alpha == 1 else t.apply("mul", alpha, product)
    return t.apply("add", product, bias if beta == 1 else t.apply("mul", beta, bias))


# --- reductions -----------------------------------------------------------------------------------


def _direction(t: Translation, node: fx.Node, x: Any, dims: Any) -> str:
    """ "row" or "col": what is reduced over."""
    if t.value(x).head:
        raise t.refuse("reduces over each head, for which there is a sum alone (head_sum)")
    ndim = len(shape_of(node.args[0]))
    given = [dims] if isinstance(dims, int) else list(dims or range(ndim))
    over = {d % ndim for d in given}
    if ndim != 2 or len(over) != 1:
        raise t.refuse("reduces a vector, or all elements to one number; reduce a matrix over its rows or its columns")
    return "row" if over == {1} else "col"


def _reduce(t: Translation, x: Value, direction: str, op: str) -> Value:
    inner = t.builder.nodes[x.node]
    args: tuple[int, ...] = (x.node,)
    if op == "sum" and inner.op == "mul":
        args = inner.args  # a sum of products folds as one multiply-add
    elif op == "max" and inner.op == "abs":
        op, args = "absmax", inner.args
    return Value(t.builder.add(f"{direction}_{op}", args), x.halves and direction == "col")


def _over_head(node: fx.Node, x: Any, dims: Any) -> bool:
    """Whether what is reduced over is the columns of each head."""
    ndim = len(shape_of(node.args[0]))
    given = [dims] if isinstance(dims, int) else dims or []
    whole = isinstance(x, Value) and x.head and shape_of(node.args[0])[-1] == x.head
    return bool(whole) and [d % ndim for d in given] == [ndim - 1]


@handles("mean")
def _mean(t: Translation, node: fx.Node, x: Any, dims: Any = None, keepdim: bool = False, **options: Any) -> Value:
    if not _over_head(node, x, dims):
        raise t.refuse("divides a sum by its length, which belongs to a later stage; return the sum")
    return t.apply("div", _head_sum(t, x), x.head)


def _head_sum(t: Translation, x: Value) -> Value:
    return replace(x, node=t.builder.add(HEAD_SUM, (t.number(x).node,), value=x.head))


@handles("sum")
def _sum(t: Translation, node: fx.Node, x: Any, dims: Any = None, keepdim: bool = False, **options: Any) -> Value:
    if _over_head(node, x, dims):
        return _head_sum(t, x)
    direction = _direction(t, node, x, dims)
    return _reduce(t, t.number(x), direction, "sum")


@handles("amax")
def _amax(t: Translation, node: fx.Node, x: Any, dims: Any = None, keepdim: bool = False) -> Value:
    return _reduce(t, x, _direction(t, node, x, dims), "max")


@handles("max")
def _max(t: Translation, node: fx.Node, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    largest = _reduce(t, x, _direction(t, node, x, dim), "max")
    return largest, None


@handles("logsumexp")
def _logsumexp(t: Translation, node: fx.Node, x: Any, dims: Any, keepdim: bool = False) -> Value:
    if _direction(t, node, x, dims) != "row":
        raise t.refuse("runs over rows; the primitive row_lse runs over the columns of each row")
    return Value(t.builder.add("row_lse", (x.node,)))


@handles("gather")
def _gather(t: Translation, node: fx.Node, x: Any, dim: int, index: Any, **options: Any) -> Value:
    if dim not in (1, -1) or not isinstance(index, Index) or shape_of(node)[1:] != (1,):
        raise t.refuse("picks other than one column a row by the task's integer operand")
    return _select(t, x, index)


@handles("index")
def _index(t: Translation, node: fx.Node, x: Any, places: Any) -> Value:
    if len(places) != 2 or not isinstance(places[0], RowNumbers) or not isinstance(places[1], Index):
        raise t.refuse("picks other than one column a row, y[torch.arange(M), target]")
    return _select(t, x, places[1])


@handles("arange")
def _arange(t: Translation, node: fx.Node, *args: Any, **options: Any) -> Any:
    if tuple(args) in ((t.columns,), (0, t.columns)):
        return Value(t.builder.add("column_index", (t.builder.acc(),)))
    if tuple(args) not in ((t.rows,), (0, t.rows)):
        raise t.refuse("makes positions other than the columns' own, from 0; take them as an input")
    return RowNumbers()


def _select(t: Translation, x: Any, index: Index) -> Value:
    x = t.value(x)
    if x.halves:
        raise t.refuse("picks a column by number, and the kernel's columns alternate where the reference has halves")
    return Value(t.builder.add("select", (x.node, index.node)))
