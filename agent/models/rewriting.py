"""What rewrites of a graph are made of: a walk that replaces nodes, and expressions in a line each.

A rewrite takes a graph and gives one of the same meaning, or None where it finds nothing to change.  Only what
changes the machine code is worth one: nodes are kept in an order of their own, equal expressions are one node, and
the compiler itself joins a product and a sum that follow each other, and moves instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...primitives import Builder, Graph, Node
from ...primitives.graph import CONST

Rule = Callable[[Builder, int, tuple[int, ...]], "int | None"]
"""rule(builder, i, args) -> what node i of the old graph becomes, its arguments being built already; None: itself."""


def rebuilt(graph: Graph, rule: Rule) -> Graph | None:
    """The graph with a rule applied to each node; None where that changes nothing."""
    graph = graph.canonical()
    builder = Builder(graph.operands)
    new: list[int] = []
    for i, node in enumerate(graph.nodes):
        args = tuple(new[a] for a in node.args)
        made = rule(builder, i, args)
        new.append(builder.add(node.op, args, name=node.name, value=node.value) if made is None else made)
    result = builder.finish({name: new[i] for name, i in graph.outputs.items()}).canonical()
    return None if result.digest == graph.digest else result


def term(builder: Builder, op: str, *args: int | float) -> int:
    """Add an operation. Arguments that are floats are constants; those that are integers, nodes."""
    return builder.add(op, tuple(builder.const(a) if isinstance(a, float) else a for a in args))


def constant(nodes: list[Node] | tuple[Node, ...], i: int) -> float | None:
    """The number that a node is, if it is one."""
    return nodes[i].value if nodes[i].op == CONST else None


def uses(graph: Graph) -> Counter[int]:
    """How often each node is used, by others and as an output."""
    return Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs.values()))
