"""Does a reduced expression vanish in the lanes beyond the edge of a ragged tile?

There the accumulator, tiles and vectors along the ragged axis are zero, while operands along the other
axis hold ordinary values.  This evaluates the expression abstractly: each node is a known number, some
finite number, or anything.  Only a proof of zero lets the template use an unmasked sum.
"""

from __future__ import annotations

import math

import torch

from ..primitives.graph import ACC, CONST, EVEN, HEAD_SUM, ODD, OPERAND, PACK, Graph
from ..primitives.primitive import REGISTRY

FINITE = "finite"
ANY = "any"
Abstract = float | str


def vanishes(graph: Graph, roots: tuple[int, ...], direction: str, loose: frozenset[str] = frozenset()) -> bool:
    """Whether the product of `roots` is exactly zero in lanes beyond N (direction "row") or M ("col").

    loose: column vectors that may hold anything, NaN too, in the row beyond M.
    """
    values = _values(graph, direction, loose)
    factors = [values[i] for i in roots]
    return any(f == 0.0 for f in factors) and all(f != ANY for f in factors)


def _values(graph: Graph, direction: str, loose: frozenset[str]) -> list[Abstract]:
    operands = {o.name: o for o in graph.operands}
    values: list[Abstract] = []
    for node in graph.nodes:
        args = [values[a] for a in node.args]
        if node.op == ACC:
            values.append(0.0)
        elif node.op == CONST:
            values.append(node.value)
        elif node.op == OPERAND:
            operand = operands[node.name]
            zero = (bool(operand.cols) if direction == "row" else operand.rows) and not operand.index
            beyond = ANY if operand.name in loose else 0.0
            values.append(beyond if zero else FINITE)
        elif node.op in ("column_index", "row_index"):
            values.append(FINITE)
        elif node.op in (EVEN, ODD, HEAD_SUM):
            values.append(args[0])
        elif node.op == PACK:
            values.append(args[0] if args[0] == args[1] else (ANY if ANY in args else FINITE))
        else:
            values.append(_apply(node.op, args))
    return values


def _apply(op: str, args: list[Abstract]) -> Abstract:
    primitive = REGISTRY[op]
    if all(not isinstance(a, str) for a in args):
        try:
            result = float(primitive.torch(*(torch.tensor(a, dtype=torch.float64) for a in args)))
        except (RuntimeError, TypeError, IndexError, AttributeError):
            return ANY
        return result if math.isfinite(result) else ANY
    if ANY in args:
        return ANY
    if op == "mul" and 0.0 in args:
        return 0.0
    if op == "where":
        a, b = args[1], args[2]
        return a if a == b else FINITE
    return FINITE if primitive.bounded else ANY
