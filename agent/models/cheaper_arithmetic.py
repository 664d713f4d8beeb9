"""Rewrites of sums and products: fewer operations on whole tiles, more on vectors, and on numbers.

A vector that is the same along rows or columns is computed once for all that share it, so factors and summands that
are vectors alike are joined before they meet a tile.  The compiler makes one instruction of a product and the sum that
it goes into, and changes no order by itself.  Nothing here changes a value by more than rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

from ...primitives import Builder, Graph
from ...primitives.types import ValueType
from .rewriting import constant, rebuilt, term, uses


def fused_products(graph: Graph) -> Graph | None:
    """(a + 1) b as a b + b, and (1 - a) b as b - a b: one multiply-add for a sum and a product."""
    graph = graph.canonical()
    count, summed = uses(graph), _summed(graph)

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        if graph.nodes[i].op != "mul" or i in summed:
            return None
        for k in (0, 1):
            inner, other = graph.nodes[i].args[k], args[1 - k]
            op = graph.nodes[inner].op
            if op not in ("add", "sub") or b.nodes[args[k]].op != op or count[inner] > 1:
                continue
            left, right = b.nodes[args[k]].args
            if constant(b.nodes, right) == 1:
                return term(b, op, term(b, "mul", left, other), other)
            if constant(b.nodes, left) == 1:
                return term(b, op, other, term(b, "mul", right, other))
        return None

    return rebuilt(graph, rule)


def scale_and_shift(graph: Graph) -> Graph | None:
    """(x + a) b as x b + a b, where a and b are vectors alike: one multiply-add, and a product of vectors."""
    graph = graph.canonical()
    count, summed = uses(graph), _summed(graph)

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        if graph.nodes[i].op != "mul":
            return None
        for k in (0, 1):
            inner, factor = graph.nodes[i].args[k], args[1 - k]
            op, kind = graph.nodes[inner].op, _kind(b.types[factor])
            if op not in ("add", "sub") or b.nodes[args[k]].op != op or count[inner] > 1 or kind == "tile":
                continue
            if i in summed and _kind(graph.types[summed[i]]) not in ("number", kind):
                continue  # the sum that follows has made one instruction of it already
            left, right = b.nodes[args[k]].args
            kinds = [_kind(b.types[j]) for j in (left, right)]
            if kinds.count("tile") == 1 and min(kinds) in ("number", kind):
                return term(b, op, term(b, "mul", left, factor), term(b, "mul", right, factor))
        return None

    return rebuilt(graph, rule)


def narrow_factors_first(graph: Graph) -> Graph | None:
    """In a product of several factors, those alike (numbers, one a row, one a column) are joined before a tile."""
    return _narrow_first(graph, "mul")


def narrow_summands_first(graph: Graph) -> Graph | None:
    """The same for sums."""
    return _narrow_first(graph, "add")


def shared_products(graph: Graph) -> Graph | None:
    """a b c and d a b: a b is computed once, where the order of the factors hides it."""
    found = None
    while (step := _share_one(found or graph)) is not None:
        found = step
    return found


def _share_one(graph: Graph) -> Graph | None:
    graph = graph.canonical()
    chains = _chains(graph, "mul")
    best: Counter[int] = Counter()
    pair: tuple[int, ...] = ()
    for one, two in combinations(chains, 2):
        common = Counter(chains[one]) & Counter(chains[two])
        if common.total() > max(1, best.total()) and any(graph.nodes[i].op != "const" for i in common):
            best, pair = common, (one, two)
    new: dict[int, int] = {}

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        new.update(zip(graph.nodes[i].args, args, strict=True))
        if i not in pair:
            return None
        rest = list((Counter(chains[i]) - best).elements())
        return _together(b, "mul", [_together(b, "mul", (new[j] for j in best.elements())), *(new[j] for j in rest)])

    return rebuilt(graph, rule) if pair else None


def _narrow_first(graph: Graph, op: str) -> Graph | None:
    """Chains of one operation in the order tiles, numbers, one a row, one a column, those alike joined first."""
    graph = graph.canonical()
    chains = _chains(graph, op)
    new: dict[int, int] = {}

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        new.update(zip(graph.nodes[i].args, args, strict=True))
        groups: dict[str, list[int]] = {}
        for leaf in chains.get(i, ()):
            groups.setdefault(_kind(graph.types[leaf]), []).append(leaf)
        tiles, numbers = groups.pop("tile", []), groups.pop("number", [])
        vectors = [groups[kind] for kind in ("col", "row") if kind in groups] or [[]]
        vectors[0] = [*numbers, *vectors[0]]
        if not tiles or all(len(v) < 2 for v in vectors):
            return None
        joined = [_together(b, op, (new[leaf] for leaf in v)) for v in vectors if v]
        return _together(b, op, [*(new[leaf] for leaf in tiles), *joined])

    return rebuilt(graph, rule)


def _chains(graph: Graph, op: str) -> dict[int, list[int]]:
    """What an operation joins, by the last node of each chain; parts that something else uses stand for themselves."""
    count = uses(graph)
    inner = {a for n in graph.nodes if n.op == op for a in n.args if graph.nodes[a].op == op and count[a] == 1}

    def leaves(i: int) -> list[int]:
        return [leaf for a in graph.nodes[i].args for leaf in (leaves(a) if a in inner else [a])]

    return {i: leaves(i) for i, n in enumerate(graph.nodes) if n.op == op and i not in inner}


def _together(b: Builder, op: str, parts: Iterable[int]) -> int:
    first, *rest = parts
    for part in rest:
        first = b.add(op, (first, part))
    return first


def _summed(graph: Graph) -> dict[int, int]:
    """Products that go into one sum and nothing else, with what they are added to."""
    count = uses(graph)
    sums = [n.args for n in graph.nodes if n.op in ("add", "sub")]
    return {a: other for x, y in sums for a, other in ((x, y), (y, x)) if graph.nodes[a].op == "mul" and count[a] == 1}


def _kind(kind: ValueType) -> str:
    if kind.rows and kind.cols:
        return "tile"
    if kind.rows:
        return "col"
    return "row" if kind.cols else "number"
