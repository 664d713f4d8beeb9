"""The graph of an epilogue: typed nodes in order, JSON round-trip, digest.

This is the closed tier's internal form: what the reader makes of a candidate's source, what the tracer
and rewrites produce, what the interpreter computes and what the template is generated from.
Nodes are kept in an order in which arguments come before uses; equal expressions are one node.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, model_validator

from .primitive import REGISTRY
from .types import DOUBLE, FULL, HALF, SAME, WIDTHS, Operand, ValueType

ACC = "acc"
CONST = "const"
OPERAND = "operand"
EVEN = "even"  # the first value of unpack
ODD = "odd"  # the second
PACK = "pack"

REDUCTIONS = {
    "row_sum": ("row", "sum"),
    "col_sum": ("col", "sum"),
    "row_max": ("row", "max"),
    "col_max": ("col", "max"),
    "row_absmax": ("row", "absmax"),
    "col_absmax": ("col", "absmax"),
    "row_lse": ("row", "lse"),
    "select": ("row", "select"),
}
"""Primitives that end a row or a column: the direction, and how partials of tiles join."""


class GraphError(ValueError):
    """An expression that has no meaning in an epilogue: what, and what to write instead."""

    def __init__(self, message: str, remedy: str = "", code: str = "bad-expression"):
        super().__init__(f"{message} {remedy}".strip())
        self.message, self.remedy, self.code = message, remedy, code


class Node(BaseModel):
    """One operation. `args` are indices of earlier nodes."""

    model_config = ConfigDict(frozen=True)

    op: str
    args: tuple[int, ...] = ()
    name: str = ""
    """The operand's name, for op "operand"."""
    value: float = 0.0
    """The number, for op "const"."""
    line: int | None = None
    """Where it stands in the candidate's source; no part of the digest."""

    @property
    def key(self) -> tuple:
        # repr: 0.0 and -0.0 are different constants.
        return (self.op, self.args, self.name, repr(self.value))


class Graph(BaseModel):
    """An epilogue as data."""

    model_config = ConfigDict(frozen=True)

    operands: tuple[Operand, ...] = ()
    nodes: tuple[Node, ...]
    outputs: dict[str, int]

    @model_validator(mode="after")
    def _arguments_come_first(self) -> Graph:
        for i, node in enumerate(self.nodes):
            if any(a >= i or a < 0 for a in node.args):
                raise ValueError(f"node {i} ({node.op}) uses a node that does not come before it")
        if any(not 0 <= i < len(self.nodes) for i in self.outputs.values()):
            raise ValueError("an output names a node that does not exist")
        return self

    @property
    def types(self) -> tuple[ValueType, ...]:
        """The type of every node; raises GraphError where one has none."""
        operands = {o.name: o for o in self.operands}
        types: list[ValueType] = []
        for node in self.nodes:
            types.append(infer(node, [types[a] for a in node.args], operands))
        return tuple(types)

    def canonical(self) -> Graph:
        """The same graph without unused nodes, each in the order of first use from the outputs by name."""
        builder = Builder(self.operands)
        memo: dict[int, int] = {}

        def visit(root: int) -> int:
            stack = [(root, False)]
            while stack:
                i, ready = stack.pop()
                if i in memo:
                    continue
                node = self.nodes[i]
                if ready:
                    memo[i] = builder.add(
                        node.op, tuple(memo[a] for a in node.args), name=node.name, value=node.value, line=node.line
                    )
                else:
                    stack.append((i, True))
                    stack.extend((a, False) for a in reversed(node.args))
            return memo[root]

        return builder.finish({name: visit(i) for name, i in sorted(self.outputs.items())})

    @property
    def digest(self) -> str:
        """sha256 of the canonical graph; the same for two sources that say the same."""
        graph = self.canonical()
        used = {n.name for n in graph.nodes if n.op == OPERAND}
        spec = {
            "operands": sorted([o.name, o.rows, o.cols, o.index] for o in graph.operands if o.name in used),
            "nodes": [list(n.key) for n in graph.nodes],
            "outputs": graph.outputs,
        }
        return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()

    @property
    def used_operands(self) -> tuple[Operand, ...]:
        names = {self.nodes[i].name for i in self._reachable() if self.nodes[i].op == OPERAND}
        return tuple(o for o in self.operands if o.name in names)

    @property
    def uses_accumulator(self) -> bool:
        return any(self.nodes[i].op == ACC for i in self._reachable())

    def _reachable(self) -> set[int]:
        seen: set[int] = set()
        stack = list(self.outputs.values())
        while stack:
            i = stack.pop()
            if i not in seen:
                seen.add(i)
                stack.extend(self.nodes[i].args)
        return seen


class Builder:
    """Grows a graph; equal expressions become one node, and every node is typed as it is added."""

    def __init__(self, operands: Iterable[Operand] = ()):
        self.operands = tuple(operands)
        self._by_name = {o.name: o for o in self.operands}
        self.nodes: list[Node] = []
        self.types: list[ValueType] = []
        self._seen: dict[tuple, int] = {}

    def add(self, op: str, args: tuple[int, ...] = (), *, name: str = "", value: float = 0.0, line: int | None = None) -> int:
        """Add a node (or find its equal) and return its index. Raises GraphError if it has no meaning."""
        node = Node(op=op, args=args, name=name, value=float(value), line=line)
        found = self._seen.get(node.key)
        if found is not None:
            return found
        self.types.append(infer(node, [self.types[a] for a in args], self._by_name))
        self.nodes.append(node)
        self._seen[node.key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def acc(self) -> int:
        return self.add(ACC)

    def operand(self, name: str) -> int:
        return self.add(OPERAND, name=name)

    def const(self, value: float) -> int:
        return self.add(CONST, value=value)

    def finish(self, outputs: dict[str, int]) -> Graph:
        return Graph(operands=self.operands, nodes=tuple(self.nodes), outputs=dict(outputs))


def infer(node: Node, args: list[ValueType], operands: dict[str, Operand]) -> ValueType:
    """The type of a node from its arguments' types. Raises GraphError with a remedy."""
    if node.op == ACC:
        return ValueType(rows=True, cols=FULL)
    if node.op == CONST:
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
    if node.op in (EVEN, ODD):
        (x,) = args
        half = {FULL: HALF, DOUBLE: FULL}.get(x.cols)
        if half is None:
            raise GraphError(
                f"unpack needs a value at least as wide as the accumulator; this one is {x}.",
                "Unpack the accumulator, or a tile or row vector of its width, once.",
                "bad-unpack",
            )
        return ValueType(rows=x.rows, cols=half, dtype=x.dtype)
    if node.op == PACK:
        even, odd = args
        width = _join(node.op, args).cols
        if width not in (HALF, FULL):
            raise GraphError(
                f"pack joins two values of N/2 or N columns; these are {even} and {odd}.",
                "Pack values that came from unpack.",
                "bad-pack",
            )
        return ValueType(rows=even.rows or odd.rows, cols=width * 2)
    if node.op not in REGISTRY:
        raise GraphError(f"{node.op!r} is not a primitive.", "", "unknown-name")
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
            raise GraphError("& and | join conditions, and one of these is a number.", "Compare first.", "bad-condition")
        return _join(node.op, args)
    _no_truth(node.op, args)
    if node.op in REDUCTIONS:
        return _reduce(node.op, args)
    joined = _join(node.op, args)
    return joined.model_copy(update={"dtype": "bool"}) if primitive.truth else joined


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
    dtype = "bool" if args and all(a.dtype == "bool" for a in args) else "f32"
    return ValueType(rows=any(a.rows for a in args), cols=widths.pop() if widths else SAME, dtype=dtype)


def _no_truth(op: str, args: list[ValueType]) -> None:
    if any(a.dtype == "bool" for a in args):
        raise GraphError(f"{op} is applied to a condition.", "Turn it into a number: where(condition, 1.0, 0.0).", "bad-condition")


def _count(low: int, high: int) -> str:
    if low == high:
        return f"{low} argument" + "s" * (low != 1)
    return f"{low} to {high} arguments"
