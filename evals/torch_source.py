"""Writes a graph as plain PyTorch: the reference of a generated task, in the style of the catalogue's.

Everything after the product is computed in float32, so that the unfused path loses little and the tolerance, which
is relative to that loss, stays tight.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Collection

from ..primitives.graph import ACC, CONST, EVEN, ODD, OPERAND, PACK, Graph, Node

_INFIX = {
    **{"lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1), "ge": (">=", 1), "eq": ("==", 1), "ne": ("!=", 1)},
    **{"logical_or": ("|", 2), "logical_and": ("&", 3)},
    **{"add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5)},
}
_UNARY, _ATOM = 6, 7
_LONGEST = 70

_CALLS = {
    **{f: f"torch.{f}({{0}})" for f in ("exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "erf", "sin", "cos")},
    **{f: f"torch.{f}({{0}})" for f in ("sigmoid", "relu")},
    "abs": "{0}.abs()",
    "silu": "functional.silu({0})",
    "gelu": "functional.gelu({0})",
    "gelu_tanh": 'functional.gelu({0}, approximate="tanh")',
    "relu_sq": "torch.relu({0}).square()",
    "softplus": "torch.logaddexp({0}, torch.zeros_like({0}))",
    "softcap": "{1} * torch.tanh({0} / {1})",
    "clamp": "{0}.clamp({1}, {2})",
    "where": "torch.where({0}, {1}, {2})",
    "row_max": "{0}.amax(-1)",
    "col_max": "{0}.amax(0)",
    "row_absmax": "{0}.abs().amax(-1)",
    "col_absmax": "{0}.abs().amax(0)",
    "row_lse": "torch.logsumexp({0}, -1)",
    "select": "{0}.gather(-1, {1}[:, None])[:, 0]",
}
"""Where an argument stands before a dot, `_Writer` puts brackets round it if it needs them."""

_HELPERS = {
    "sigmoid_grad": "s = torch.sigmoid(x)\n    return s * (1 - s)",
    "silu_grad": "s = torch.sigmoid(x)\n    return s + x * s * (1 - s)",
    "gelu_grad": (
        "cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))\n"
        "    return cdf + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)"
    ),
    "gelu_tanh_grad": (
        "c = math.sqrt(2 / math.pi)\n"
        "    t = torch.tanh(c * (x + 0.044715 * x**3))\n"
        "    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)"
    ),
    "relu_grad": "return (x > 0).to(x.dtype)",
    "relu_sq_grad": "return 2 * torch.relu(x)",
    "tanh_grad": "t = torch.tanh(x)\n    return 1 - t * t",
}
"""Derivatives, written out above the reference where it uses them."""


def torch_lines(
    graph: Graph, product: str, *, narrow: Collection[str] = (), halves: bool = False
) -> tuple[list[str], list[str]]:
    """The body of a reference that computes a graph: its helper functions, and its statements, `return` included.

    product: the expression of the accumulator, such as "x @ w.T".
    narrow: operands in 16 bits, which are made float32 first.
    halves: whether paired columns lie as halves; they alternate otherwise.
    """
    return _Writer(graph.canonical(), product, narrow, halves).write()


class _Writer:
    def __init__(self, graph: Graph, product: str, narrow: Collection[str], halves: bool):
        self.graph, self.product, self.narrow, self.halves = graph, product, narrow, halves
        self.operands = {o.name: o for o in graph.operands}
        self.uses = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs.values()))
        self.taken = {*self.operands, *keyword.kwlist, "torch", "functional", "math", "acc", "x", "w", "dy"}
        self.helpers: dict[str, str] = {}
        self.lines: list[str] = []
        self.written: list[tuple[str, int]] = []

    def write(self) -> tuple[list[str], list[str]]:
        self.lines.append(f"acc = ({self.product}).float()")
        for node in self.graph.nodes:
            if node.op != OPERAND:
                continue
            column = "[:, None]" if self.operands[node.name].kind == "col" else ""
            text = node.name + ".float()" * (node.name in self.narrow) + column
            if text != node.name:
                self.lines.append(f"{node.name} = {text}")
        for i, node in enumerate(self.graph.nodes):
            text, strength = self._expression(node)
            if (self.uses[i] > 1 or len(text) > _LONGEST) and node.op not in (CONST, OPERAND, ACC):
                name = self._fresh("y")
                self.lines.append(f"{name} = {text}")
                text, strength = name, _ATOM
            self.written.append((text, strength))
        pairs = [f'"{name}": {self.written[i][0]}' for name, i in self.graph.outputs.items()]
        self.lines.append(f"return {{{', '.join(pairs)}}}")
        return [f"def {name}(x):\n    {body}" for name, body in sorted(self.helpers.items())], self.lines

    def _expression(self, node: Node) -> tuple[str, int]:
        if node.op == ACC:
            return "acc", _ATOM
        if node.op == OPERAND:
            return node.name, _ATOM
        if node.op == CONST:
            return repr(node.value), _UNARY if node.value < 0 else _ATOM
        if node.op in _INFIX:
            symbol, strength = _INFIX[node.op]
            return f"{self._at(node.args[0], strength)} {symbol} {self._at(node.args[1], strength + 1)}", strength
        if node.op == "neg":
            return f"-{self._at(node.args[0], _ATOM)}", _UNARY
        args = [self.written[a][0] for a in node.args]
        tight = [self._at(a, _ATOM) for a in node.args]
        if node.op in (EVEN, ODD):
            if self.halves:
                return f"{tight[0]}.chunk(2, -1)[{int(node.op == ODD)}]", _ATOM
            return f"{tight[0]}[..., {int(node.op == ODD)}::2]", _ATOM
        if node.op == PACK:
            if self.halves:
                return f"torch.cat(({args[0]}, {args[1]}), -1)", _ATOM
            return f"torch.stack(({args[0]}, {args[1]}), -1).flatten(-2)", _ATOM
        if node.op in ("row_sum", "col_sum"):
            value = args[0] if len(args) == 1 else f"{self._at(node.args[0], 5)} * {self._at(node.args[1], 6)}"
            inner = tight[0] if len(args) == 1 else f"({value})"
            return f"{inner}.sum({-1 if node.op == 'row_sum' else 0})", _ATOM
        if node.op in ("maximum", "minimum"):
            return self._extreme(node, args, tight), _ATOM
        if node.op in _HELPERS:
            self.helpers[node.op] = _HELPERS[node.op]
            return f"{node.op}({args[0]})", _ATOM
        template = _CALLS[node.op]
        if template.startswith("{0}."):
            args[0] = tight[0]
        if node.op == "softcap":
            return template.format(self._at(node.args[0], 5), self._at(node.args[1], 6)), 5
        return template.format(*args), _ATOM

    def _extreme(self, node: Node, args: list[str], tight: list[str]) -> str:
        """torch.maximum takes two tensors; beside a number, clamp says the same."""
        bound = "min" if node.op == "maximum" else "max"
        for number, other in ((1, 0), (0, 1)):
            if self.graph.nodes[node.args[number]].op == CONST:
                return f"{tight[other]}.clamp({bound}={args[number]})"
        return f"torch.{node.op}({args[0]}, {args[1]})"

    def _at(self, i: int, strength: int) -> str:
        text, own = self.written[i]
        return text if own >= strength else f"({text})"

    def _fresh(self, word: str) -> str:
        name, number = word, 2
        while name in self.taken:
            name, number = f"{word}{number}", number + 1
        self.taken.add(name)
        return name
