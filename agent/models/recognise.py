"""Finds primitives in what a reference spells out, such as silu in x * sigmoid(x)."""

from __future__ import annotations

from collections import Counter

import torch

from ...primitives import REGISTRY, Builder, Graph, Node
from ...primitives.graph import CONST, EVEN, ODD, PACK

_NAMED = (
    *("sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "relu_sq", "rsqrt"),
    *("sigmoid_grad", "silu_grad", "gelu_grad", "gelu_tanh_grad", "tanh_grad", "relu_sq_grad"),
)
# Analytic but for relu at zero: two of them that agree on many points agree everywhere.
_SMOOTH = {
    *("add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "erf"),
    *("sigmoid", "silu", "gelu", "gelu_tanh", "relu", "softplus"),
}
_LARGEST = 24  # gelu_tanh_grad, spelt out, has about twenty operations
_POINTS = torch.linspace(-6.1, 5.9, 83, dtype=torch.float64)


def recognise(graph: Graph) -> Graph:
    """The same meaning with primitives of their own name where several operations spell one out.

    Only where nothing else uses what lies between, so that no work is done twice.
    """
    graph = _rebuild(graph, {}).canonical()
    while True:
        found = _unary(graph)
        if found is None:
            return graph
        graph = _rebuild(graph, found).canonical()


def _rebuild(graph: Graph, replaced: dict[int, tuple[str, int]]) -> Graph:
    """The graph with nodes replaced by a primitive of another node, and small patterns put right."""
    builder = Builder(graph.operands)
    new: list[int] = []
    for i, node in enumerate(graph.nodes):
        if i in replaced:
            op, x = replaced[i]
            new.append(builder.add(op, (new[x],)))
            continue
        args = tuple(new[a] for a in node.args)
        nodes = builder.nodes
        if (
            node.op == PACK
            and [nodes[a].op for a in args] == [EVEN, ODD]
            and nodes[args[0]].args == nodes[args[1]].args
        ):
            new.append(nodes[args[0]].args[0])
            continue
        capped = _softcap(builder, node, args)
        new.append(builder.add(node.op, args, name=node.name, value=node.value) if capped is None else capped)
    return builder.finish({name: new[i] for name, i in graph.outputs.items()})


def _softcap(builder: Builder, node: Node, args: tuple[int, ...]) -> int | None:
    """cap * tanh(x / cap), the cap being a constant or an operand."""
    if node.op != "mul":
        return None
    for cap, other in (args, args[::-1]):
        tanh = builder.nodes[other]
        inner = builder.nodes[tanh.args[0]] if tanh.op == "tanh" else None
        if inner is not None and inner.op == "div" and inner.args[1] == cap:
            return builder.add("softcap", (inner.args[0], cap))
    return None


def _unary(graph: Graph) -> dict[int, tuple[str, int]] | None:
    """The largest expression that is a named function of one value."""
    uses = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs.values()))
    best: tuple[int, int, str, int] | None = None
    for i in range(len(graph.nodes)):
        for x in _bases(graph, i):
            inside = _between(graph, i, x)
            if not inside or len(inside) < 2 or (best and len(inside) <= best[0]):
                continue
            counted = Counter(a for j in inside for a in graph.nodes[j].args)
            if any(uses[j] != counted[j] for j in inside - {i} if graph.nodes[j].op != CONST):
                continue
            name = _named(graph, i, x, inside)
            if name:
                best = (len(inside), i, name, x)
    return {best[1]: (best[2], best[3])} if best else None


def _bases(graph: Graph, root: int) -> set[int]:
    """Nodes below one, near enough to be what it is a function of."""
    seen: set[int] = set()
    frontier = {root}
    while frontier and len(seen) <= 2 * _LARGEST:
        frontier = {a for i in frontier if graph.nodes[i].op in _SMOOTH for a in graph.nodes[i].args} - seen
        seen |= frontier
    return {i for i in seen if graph.nodes[i].op != CONST}


def _between(graph: Graph, root: int, x: int) -> set[int] | None:
    """The operations that make root of x and constants; None where something else takes part."""
    inside: set[int] = set()
    stack = [root]
    while stack:
        i = stack.pop()
        if i == x or i in inside or graph.nodes[i].op == CONST:
            continue
        if graph.nodes[i].op not in _SMOOTH or len(inside) >= _LARGEST:
            return None
        inside.add(i)
        stack.extend(graph.nodes[i].args)
    return inside


def _named(graph: Graph, root: int, x: int, inside: set[int]) -> str | None:
    values: dict[int, torch.Tensor] = {x: _POINTS}
    for i in sorted(inside):
        args = [
            values[a] if a in values else torch.tensor(graph.nodes[a].value, dtype=torch.float64)
            for a in graph.nodes[i].args
        ]
        values[i] = REGISTRY[graph.nodes[i].op].torch(*args)
    result = values[root]
    if result.isfinite().sum() < len(_POINTS) // 3:
        return None
    for name in _NAMED:
        if torch.allclose(result, REGISTRY[name].torch(_POINTS), rtol=1e-10, atol=1e-13, equal_nan=True):
            return name
    return None
