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

from .fold import fold
from .heads import NARROWEST, WIDEST
from .infer import infer
from .node import ACC, COMPARISONS, CONST, EVEN, HEAD_SUM, ODD, OPERAND, PACK, REDUCTIONS, GraphError, Node
from .types import Operand, ValueType

__all__ = [
    "ACC",
    "COMPARISONS",
    "CONST",
    "EVEN",
    "HEAD_SUM",
    "ODD",
    "OPERAND",
    "PACK",
    "REDUCTIONS",
    "Builder",
    "Graph",
    "GraphError",
    "Node",
    "infer",
]


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

    def add(
        self, op: str, args: tuple[int, ...] = (), *, name: str = "", value: float = 0.0, line: int | None = None
    ) -> int:
        """Add a node (or find its equal, or the constant that it is) and return its index.

        Raises GraphError if it has no meaning.
        """
        if op == HEAD_SUM and len(args) == 2:
            x, width = args
            args, value = (x,), self._head_dim(width)
        if args and all(self.nodes[a].op == CONST for a in args):
            folded = fold(op, [self.nodes[a].value for a in args])
            if folded is not None:
                return self.add(CONST, value=folded, line=line)
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

    def _head_dim(self, i: int) -> float:
        node = self.nodes[i]
        if node.op == CONST and node.value % NARROWEST == 0 and NARROWEST <= node.value <= WIDEST:
            return node.value
        given = f"{node.value:g}" if node.op == CONST else "a value"
        raise GraphError(
            f"The head_dim of head_sum is {given}.",
            f"Write a number, a multiple of {NARROWEST} up to {WIDEST}: head_sum(x, 128).",
            "bad-head-dim",
        )

    def rotate(self, x: int, cos: int, sin: int, *, line: int | None = None) -> int:
        """What `rotate(x, cos, sin)` stands for; the graph itself has no such node."""
        even, odd = self.add(EVEN, (x,), line=line), self.add(ODD, (x,), line=line)

        def times(a: int, b: int) -> int:
            return self.add("mul", (a, b), line=line)

        first = self.add("sub", (times(even, cos), times(odd, sin)), line=line)
        second = self.add("add", (times(even, sin), times(odd, cos)), line=line)
        return self.add(PACK, (first, second), line=line)

    def finish(self, outputs: dict[str, int]) -> Graph:
        return Graph(operands=self.operands, nodes=tuple(self.nodes), outputs=dict(outputs))
