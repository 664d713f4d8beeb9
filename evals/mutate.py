"""Damaged candidates, for the reader to be tried on: by bytes, by tokens, by nodes of the syntax tree.

Each carries a payload that would leave a mark if anything of it were executed.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNS = '( ) [ ] { } : , = := * ** - / @ . -> ; \' """ \\ é \u202e 🙂 \x00 \ud800'
_NAMES = "acc silu unpack where row_sum epilogue f o x.y acc[0] 1 1e999 0x10 1j None True ... f'{acc}' b'x'"
_WORDS = "if else for in not and or return def class import await async yield del match case with lambda global"
_OTHER = (
    "\n",
    "\n    ",
    "\t",
    "\r",
    "\x0c",
    "# type: ignore",
    "try:",
    "type X = ",
    "except* E:",
    "1" * 5000,
    "(" * 300,
)
TOKENS = (*" ".join((_SIGNS, _NAMES, _WORDS)).split(" "), *_OTHER)


def mutated(source: str, dice: random.Random, mark: str) -> str:
    """The source with one to six damages, and a payload somewhere; most of them still parse."""
    kinds = [_tree] if dice.random() < 0.7 else [_bytes, _token, _token, _lines, _tree]
    for _ in range(dice.randint(1, 6)):
        source = dice.choice(kinds)(source, dice)
    payload = f"__import__('pathlib').Path({mark!r}).touch()"
    place = dice.randrange(4)
    if place == 0:
        return f"{payload}\n{source}"
    if place == 1:
        return f"{source}\n{payload}\n"
    lines = source.split("\n")
    at = dice.randrange(len(lines))
    lines[at] = lines[at].replace("acc", f"(acc, {payload})[0]", 1) if place == 2 else f"{lines[at]}; {payload}"
    return "\n".join(lines)


def _bytes(source: str, dice: random.Random) -> str:
    data = bytearray(source.encode("utf-8", "surrogatepass"))
    for _ in range(dice.randint(1, 6)):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    return data.decode("utf-8", dice.choice(["replace", "ignore", "surrogateescape"]))


def _token(source: str, dice: random.Random) -> str:
    at = dice.randrange(len(source) + 1)
    return f"{source[:at]}{dice.choice(TOKENS)}{' ' * dice.randrange(2)}{source[at + dice.randrange(6) :]}"


def _lines(source: str, dice: random.Random) -> str:
    lines = source.split("\n")
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    how = dice.randrange(4)
    if how == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 1:
        lines[at:at] = lines[other : other + dice.randint(1, 4)] * dice.choice([1, 1, 1, 40])
    elif how == 2:
        del lines[at]
    else:
        lines[at] = " " * dice.randrange(9) + lines[at].lstrip()
    return "\n".join(lines)


def _tree(source: str, dice: random.Random) -> str:
    """Exchange, nest or drop nodes; the source as it is where it no longer parses."""
    try:
        tree = ast.parse(source)
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.expr)]
        if len(nodes) < 2:
            return source
        old, new = dice.choice(nodes), dice.choice(nodes)
        made: ast.expr = dice.choice(
            [
                new,
                ast.BinOp(new, dice.choice([ast.Add(), ast.MatMult(), ast.Pow(), ast.Mod(), ast.BitAnd()]), new),
                ast.IfExp(new, new, new),
                ast.Lambda(ast.arguments([], [ast.arg("x")], None, [], [], None, []), new),
                ast.Call(ast.Name(dice.choice(["silu", "row_sum", "exec", "open", "unpack"])), [new], []),
                ast.Attribute(new, dice.choice(["__class__", "T", "__globals__"])),
                ast.Subscript(new, new),
                ast.Await(new),
                ast.NamedExpr(ast.Name("acc"), new),
                ast.Constant(dice.choice([10**400, 1e308, float("inf"), "text", b"x", None, True, 3j])),
                ast.ListComp(new, [ast.comprehension(ast.Name("i"), new, [], 0)]),
                ast.Starred(new),
            ]
        )
        return ast.unparse(_Exchange(old, made).visit(tree))
    except (SyntaxError, ValueError, RecursionError, AttributeError, MemoryError, TypeError):
        return source


class _Exchange(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


class Watch:
    """Audit events that a reader has no business with, while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        # The parser looks for the file of a wrong line, though there is none.
        if self.on and event in _FORBIDDEN and not str(arguments[0]).startswith("<"):
            self.seen.append(f"{event} {arguments!r}"[:200])


_FORBIDDEN = {
    "exec",
    "import",
    "open",
    "os.system",
    "subprocess.Popen",
    "os.fork",
    "os.exec",
    "socket.connect",
    "ctypes.dlopen",
}


@contextmanager
def watched() -> Iterator[Watch]:
    """An audit hook; Python cannot take one out again, so it stays, switched off."""
    watch = Watch()
    sys.addaudithook(watch)
    try:
        yield watch
    finally:
        watch.on = False
