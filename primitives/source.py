"""Writes a graph as a candidate's source: what `reader.read` turns back into the same graph."""

from __future__ import annotations

import builtins
import keyword
from collections import Counter

from .graph import ACC, CONST, EVEN, HEAD_SUM, ODD, OPERAND, Graph, Node
from .language import PACKAGE
from .primitive import REGISTRY

# How tightly an operator binds; a function call or a name binds tightest.
_INFIX = {
    **{"lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1), "ge": (">=", 1), "eq": ("==", 1), "ne": ("!=", 1)},
    **{"logical_or": ("|", 2), "logical_and": ("&", 3)},
    **{"add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5)},
}
_UNARY, _ATOM = 6, 7

_WORDS = {
    **{"add": "total", "sub": "difference", "mul": "product", "div": "quotient", "neg": "negative"},
    **{"where": "chosen", "pack": "packed", "clamp": "limited", "softcap": "capped", "abs": "magnitude"},
    **{"maximum": "larger", "minimum": "smaller", "logical_and": "both", "logical_or": "either"},
    **{"exp": "e", "tanh": "t", "sigmoid": "s", "sqrt": "root", "rsqrt": "inverse_root", "reciprocal": "inverse"},
    **{"cos": "cosine", "sin": "sine", "column_index": "column", "row_index": "row", "head_sum": "of_head"},
}
_GATES = {"sigmoid", "silu", "gelu", "gelu_tanh", "relu", "relu_sq"}
_LONGEST = 60


def to_source(graph: Graph, name: str) -> str:
    """A readable file whose one epilogue, called `name`, is the graph; `read` gives the same digest again.

    A shared or long subexpression gets a statement of its own, `unpack` one for both values; only what is
    used is imported, under another name where an operand is called like a primitive.
    """
    return _Writer(graph.canonical(), _identifier(name)).text()


class _Writer:
    def __init__(self, graph: Graph, function: str):
        self.graph, self.function = graph, function
        self.operands = [o.name for o in graph.used_operands]
        self.uses = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs.values()))
        for i in {n.args[0] for n in graph.nodes if n.op == EVEN} & {n.args[0] for n in graph.nodes if n.op == ODD}:
            self.uses[i] -= 1  # one unpack
        self.output_of = {i: name for name, i in reversed(graph.outputs.items())}
        self.imports: dict[str, str] = {"epilogue": "epilogue"}
        self.taken = {ACC, "epilogue", function, *self.operands, *REGISTRY, *keyword.kwlist, *dir(builtins)}
        self.lines: list[str] = []
        self.unpacked: dict[int, tuple[str, str]] = {}
        self.written: list[tuple[str, int]] = []
        """Text and binding strength of every node so far."""

    def text(self) -> str:
        for i, node in enumerate(self.graph.nodes):
            self.written.append(self._node(i, node))
        pairs = [f'"{name}": {self.written[i][0]}' for name, i in self.graph.outputs.items()]
        returned = f"    return {{{', '.join(pairs)}}}"
        if len(returned) > 100:
            returned = "    return {\n" + "".join(f"        {p},\n" for p in pairs) + "    }"
        names = [n if n == local else f"{n} as {local}" for n, local in sorted(self.imports.items())]
        imported = f"from {PACKAGE} import {', '.join(names)}"
        if len(imported) > 100:
            imported = f"from {PACKAGE} import (\n" + "".join(f"    {n},\n" for n in names) + ")"
        signature = f"@epilogue\ndef {self.function}({', '.join([ACC, *self.operands])}):"
        return "\n".join([imported, "", "", signature, *self.lines, returned, ""])

    def _node(self, i: int, node: Node) -> tuple[str, int]:
        if node.op in (ACC, OPERAND):
            return node.name or ACC, _ATOM
        if node.op == CONST:
            return repr(node.value), _UNARY if repr(node.value).startswith("-") else _ATOM
        if node.op in (EVEN, ODD):
            return self._lane(node), _ATOM
        text, strength = self._expression(node)
        if self.graph.types[i].reduced and len(text) <= 2 * _LONGEST and self.uses[i] == 1:
            return text, strength
        if self.uses[i] > 1 or len(text) > _LONGEST:
            variable = self._fresh(self.output_of.get(i) or _WORDS.get(node.op, "y"))
            self.lines.append(f"    {variable} = {text}")
            return variable, _ATOM
        return text, strength

    def _expression(self, node: Node) -> tuple[str, int]:
        if node.op in _INFIX:
            symbol, strength = _INFIX[node.op]
            # Operators group to the left.
            left, right = self._argument(node.args[0], strength), self._argument(node.args[1], strength + 1)
            return f"{left} {symbol} {right}", strength
        if node.op == "neg":
            return f"-{self._argument(node.args[0], _UNARY + 1)}", _UNARY
        if node.op == HEAD_SUM:
            return f"{self._imported(node.op)}({self.written[node.args[0]][0]}, {int(node.value)})", _ATOM
        return f"{self._imported(node.op)}({', '.join(self.written[a][0] for a in node.args)})", _ATOM

    def _argument(self, i: int, strength: int) -> str:
        text, own = self.written[i]
        return text if own >= strength else f"({text})"

    def _lane(self, node: Node) -> str:
        (x,) = node.args
        if x not in self.unpacked:
            source = self.graph.nodes[x]
            prefix = f"{source.name}_" if source.op == OPERAND else ""
            lanes = {n.op: i for i, n in enumerate(self.graph.nodes) if n.op in (EVEN, ODD) and n.args == (x,)}
            gated = any(n.op in _GATES and n.args[0] == lanes.get(EVEN) for n in self.graph.nodes)
            words = {EVEN: "gate", ODD: "up"} if gated else {EVEN: EVEN, ODD: ODD}
            even, odd = (self._fresh(prefix + words[op]) if op in lanes else "_" for op in (EVEN, ODD))
            self.lines.append(f"    {even}, {odd} = {self._imported('unpack')}({self.written[x][0]})")
            self.unpacked[x] = even, odd
        return self.unpacked[x][node.op == ODD]

    def _imported(self, name: str) -> str:
        if name not in self.imports:
            shadowed = name in self.operands or name == self.function
            self.imports[name] = self._fresh(f"{name}_of") if shadowed else name
        return self.imports[name]

    def _fresh(self, word: str) -> str:
        name, number = word, 2
        while name in self.taken:
            name, number = f"{word}{number}", number + 1
        self.taken.add(name)
        return name


def _identifier(name: str) -> str:
    """A name as it may stand after def."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "epilogue_"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if keyword.iskeyword(plain) or plain in (ACC, "epilogue") else plain
