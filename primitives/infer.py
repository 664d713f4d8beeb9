"""The type of an operation from the types of its arguments, and every reason why it may have none."""

from __future__ import annotations

from .fold import FLOAT32_MAX
from .node import ACC, COMPARISONS, CONST, EVEN, HEAD_SUM, ODD, OPERAND, PACK, REDUCTIONS, GraphError, Node
from .primitive import REGISTRY
from .types import DOUBLE, FULL, HALF, SAME, WIDTHS, Operand, ValueDType, ValueType


def infer(node: Node, args: list[ValueType], operands: dict[str, Operand]) -> ValueType:
    """The type of a node from its arguments' types. Raises GraphError with a remedy."""
    if node.op == ACC:
        return ValueType(rows=True, cols=FULL)
    if node.op == CONST:
        if not abs(node.value) <= FLOAT32_MAX:
            raise GraphError(
                f"The constant {node.value} is not a finite float32 number.",
                "Use a finite one, such as -1e30 for what shall vanish under exp.",
                "bad-constant",
            )
        return ValueType(rows=False, cols=SAME)
    if node.op == OPERAND:
        if node.name not in operands:
            raise GraphError(
                f"{node.name!r} is not an operand of this task.",
                f"Use one of: acc, {', '.join(operands) or '(the task has no other operands)'}.",
                "unknown-name",
            )
        return operands[node.name].type
    for arg in args:
        if arg.reduced:
            raise GraphError(
                f"{node.op} is applied to the result of a reduction, which one tile does not know.",
                "Return the reduction itself; what needs the whole row belongs to a later stage.",
                "reduction-used",
            )
    _no_index(node.op, args)
    if node.op in (EVEN, ODD):
        (x,) = _exactly(1, node.op, args)
        half = {FULL: HALF, DOUBLE: FULL}.get(x.cols)
        if half is None:
            raise GraphError(
                f"unpack needs a value at least as wide as the accumulator; this one is {x}.",
                "Unpack the accumulator, or a tile or row vector of its width, once.",
                "bad-unpack",
            )
        return ValueType(rows=x.rows, cols=half, dtype=x.dtype)
    if node.op == PACK:
        even, odd = _exactly(2, node.op, args)
        _no_truth(node.op, args)
        width = _join(node.op, args).cols
        if width not in (HALF, FULL):
            raise GraphError(
                f"pack joins two values of N/2 or N columns; these are {even} and {odd}.",
                "Pack values that came from unpack.",
                "bad-pack",
            )
        return ValueType(rows=even.rows or odd.rows, cols=width * 2)
    if node.op == HEAD_SUM:
        (x,) = _exactly(1, node.op, args)
        if not x.rows or x.cols != FULL or x.dtype != "f32":
            raise GraphError(
                f"head_sum adds up columns of a value as wide as the accumulator; this one is {x}.",
                "Take it before unpack, of an expression of acc: head_sum(acc * acc, 128).",
                "bad-head-sum",
            )
        return x
    if node.op not in REGISTRY or node.op in ("unpack", "rotate"):
        raise GraphError(f"{node.op!r} is not an operation of the graph.", "", "unknown-name")
    primitive = REGISTRY[node.op]
    if not primitive.required <= len(args) <= len(primitive.parameters):
        raise GraphError(
            f"{node.op} takes {_count(primitive.required, len(primitive.parameters))}, and {len(args)} are given.",
            f"Write {primitive.signature}.",
            "bad-arguments",
        )
    if node.op == "where":
        if args[0].dtype != "bool":
            raise GraphError("The condition of where is a number.", "Compare: where(x > 0, a, b).", "bad-condition")
        _no_truth(node.op, args[1:])
        return _join(node.op, args).model_copy(update={"dtype": "f32"})
    if node.op in ("logical_and", "logical_or"):
        if any(a.dtype != "bool" for a in args):
            raise GraphError(
                "& and | join conditions, and one of these is a number.", "Compare first.", "bad-condition"
            )
        return _join(node.op, args)
    _no_truth(node.op, args)
    if node.op in REDUCTIONS:
        return _reduce(node.op, args)
    if node.op in ("column_index", "row_index"):
        return _coordinate(node.op, args[0])
    joined = _join(node.op, args)
    return joined.model_copy(update={"dtype": "bool"}) if primitive.truth else joined


def check_output(name: str, value: ValueType) -> None:
    """Raise GraphError if a value cannot be returned."""
    if value.dtype != "f32":
        raise GraphError(
            f"The output {name} is {value}.",
            "Return numbers; for a condition, where(condition, 1.0, 0.0).",
            "bad-output",
        )
    if not value.reduced and not (value.rows and value.cols):
        raise GraphError(
            f"The output {name} is {value}, the same in every {'row' if value.cols else 'column'}.",
            "Return a value that fills the tile, made of acc or a tile, or a reduction of one.",
            "bad-output",
        )


def _coordinate(op: str, x: ValueType) -> ValueType:
    if not (x.rows and x.cols):
        raise GraphError(
            f"{op} counts along a value that fills the tile; this one is {x}.",
            f"Write {op}(acc), or of what came from it.",
            "bad-coordinate",
        )
    if op == "row_index":
        return ValueType(rows=True, cols=SAME)
    return ValueType(rows=False, cols=x.cols)


def _reduce(op: str, args: list[ValueType]) -> ValueType:
    direction = REDUCTIONS[op][0]
    value = _join(op, args[:1] if op == "select" else args)
    if not (value.rows and value.cols):
        raise GraphError(
            f"{op} reduces a value that fills the tile; this one is {value}.",
            "Reduce an expression of the accumulator or of a tile.",
            "bad-reduction",
        )
    if direction == "row":
        return ValueType(rows=True, cols=SAME, reduced="row")
    return ValueType(rows=False, cols=value.cols, reduced="col")


def _join(op: str, args: list[ValueType]) -> ValueType:
    widths = {a.cols for a in args if a.cols != SAME}
    if len(widths) > 1:
        shown = " and ".join(WIDTHS[w] for w in sorted(widths))
        raise GraphError(
            f"{op} joins values of {shown} columns.",
            "Use unpack to make the wider one narrower, or pack to make the narrower ones wider.",
            "width-mismatch",
        )
    dtype: ValueDType = "bool" if args and all(a.dtype == "bool" for a in args) else "f32"
    return ValueType(rows=any(a.rows for a in args), cols=widths.pop() if widths else SAME, dtype=dtype)


def _no_truth(op: str, args: list[ValueType]) -> None:
    if any(a.dtype == "bool" for a in args):
        raise GraphError(
            f"{op} is applied to a condition.", "Turn it into a number: where(condition, 1.0, 0.0).", "bad-condition"
        )


def _no_index(op: str, args: list[ValueType]) -> None:
    if op in COMPARISONS:
        return
    numbers = args[:1] if op == "select" else args
    if any(a.dtype == "index" for a in numbers):
        raise GraphError(
            f"{op} is applied to column numbers, which are not values to compute with.",
            "Use them in select(y, target), or compare them: where(column_index(y) == target, 1.0, 0.0).",
            "bad-index",
        )
    if op == "select" and len(args) > 1 and args[1].dtype != "index":
        raise GraphError(
            "The second argument of select is a value, not an operand of column numbers.",
            "Pass the task's integer operand, one column number a row: select(y, target).",
            "bad-index",
        )


def _exactly(count: int, op: str, args: list[ValueType]) -> list[ValueType]:
    if len(args) != count:
        raise GraphError(f"{op} takes {_count(count, count)}, and {len(args)} are given.", "", "bad-arguments")
    return args


def _count(low: int, high: int) -> str:
    if low == high:
        return f"{low} argument" + "s" * (low != 1)
    return f"{low} to {high} arguments"
