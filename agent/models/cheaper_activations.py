"""Rewrites of activations into forms that take fewer instructions.

The units for exponentials, reciprocals and tanh give one result for every eight of a multiply-add, and a
division spelt out by the compiler is some eight instructions; so what counts is how many of those an element needs.
Counts below are of the machine code for sm_90a, an element each.
"""

from __future__ import annotations

from ...primitives import Builder, Graph
from .rewriting import constant, rebuilt, term


def sigmoid_by_tanh(graph: Graph) -> Graph | None:
    """sigmoid(x) = 1/2 + tanh(x/2)/2, and what is made of it: one tanh instead of an exponential and a reciprocal.

    The tanh unit errs by up to 2^-11 of its value, which bf16 outputs forgive and float32 ones do not.  Where products
    of a sigmoid that is nearly 0 or 1 follow, fp16 does not either: the gate refuses it in `swiglu_limit_bwd`.
    """
    graph = graph.canonical()

    def sigmoid(b: Builder, x: int) -> int:
        return term(b, "add", term(b, "mul", term(b, "tanh", term(b, "mul", x, 0.5)), 0.5), 0.5)

    def silu(b: Builder, x: int) -> int:
        half = term(b, "mul", x, 0.5)
        return term(b, "add", term(b, "mul", half, term(b, "tanh", half)), half)

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        op = graph.nodes[i].op
        if op == "sigmoid":
            return sigmoid(b, *args)
        if op == "silu":
            return silu(b, *args)
        if op in ("sigmoid_grad", "silu_grad"):
            s = sigmoid(b, *args)
            rest = term(b, "sub", 1.0, s)
            if op == "sigmoid_grad":
                return term(b, "mul", s, rest)
            return term(b, "add", s, term(b, "mul", silu(b, *args), rest))
        return None

    return rebuilt(graph, rule)


def no_division(graph: Graph) -> Graph | None:
    """a / b as a product with the approximate reciprocal, a soft cap too: one or two instructions for about eight.

    What lies in one number, or in one a row, is then inverted once and not for each element.
    """
    graph = graph.canonical()

    def inverse(b: Builder, x: int) -> int:
        if b.nodes[x].op == "sqrt":
            return b.add("rsqrt", b.nodes[x].args)
        return term(b, "reciprocal", x)

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        op = graph.nodes[i].op
        if op == "div" and constant(b.nodes, args[1]) is None:
            return term(b, "mul", args[0], inverse(b, args[1]))
        if op == "softcap":
            x, cap = args
            return term(b, "mul", cap, term(b, "tanh", term(b, "mul", x, inverse(b, cap))))
        return None

    return rebuilt(graph, rule)


def select_to_extremum(graph: Graph) -> Graph | None:
    """where(x > 0, x, c x) as a maximum, and a product with a condition's 1 or 0 as one selection."""
    graph = graph.canonical()

    def rule(b: Builder, i: int, args: tuple[int, ...]) -> int | None:
        op = graph.nodes[i].op
        if op == "where":
            return _extremum(b, *args)
        if op != "mul":
            return None
        for mask, x in (args, args[::-1]):
            node = b.nodes[mask]
            if node.op == "relu_grad":
                return term(b, "where", term(b, "gt", node.args[0], 0.0), x, 0.0)
            if node.op == "where" and [constant(b.nodes, a) for a in node.args[1:]] == [1.0, 0.0]:
                return term(b, "where", node.args[0], x, 0.0)
        return None

    return rebuilt(graph, rule)


def _extremum(b: Builder, condition: int, chosen: int, other: int) -> int | None:
    """where(x > 0, x, c x) for 0 <= c <= 1, however it is turned round."""
    test = b.nodes[condition]
    if test.op not in ("gt", "ge", "lt", "le"):
        return None
    left, right = test.args
    if constant(b.nodes, right) == 0:
        x, above = left, test.op in ("gt", "ge")
    elif constant(b.nodes, left) == 0:
        x, above = right, test.op in ("lt", "le")
    else:
        return None
    kept, scaled = (chosen, other) if above else (other, chosen)
    if kept != x:
        return None
    if constant(b.nodes, scaled) == 0:
        return term(b, "relu", x)
    node = b.nodes[scaled]
    factors = [constant(b.nodes, a) for a in node.args if a != x] if node.op == "mul" and x in node.args else []
    if len(factors) == 1 and factors[0] is not None and 0 <= factors[0] <= 1:
        return term(b, "maximum", x, scaled)
    return None
