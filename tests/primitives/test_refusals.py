"""Every construct outside the language: the line, the construct, and what to write instead."""

import sys
from random import Random

import pytest
from codasmith.primitives import Operand, ReadError, read
from hypothesis import given, settings
from hypothesis import strategies as st

OPERANDS = (
    Operand(name="rstd", rows=True, cols=0),
    Operand(name="bias", rows=False, cols=2),
    Operand(name="half", rows=True, cols=1),
    Operand(name="target", rows=True, cols=0, index=True),
)
HEAD = "from codasmith.primitives import *\n"
IMPORTS = (
    "from codasmith.primitives import epilogue, clamp, exp, log, maximum, pack, relu, rotate, row_lse, row_sum\n"
    "from codasmith.primitives import select, silu, unpack, where\n"
)
OK = '@epilogue\ndef f(acc):\n    return {"o": acc}\n'


def refused(source):
    with pytest.raises(ReadError) as caught:
        read(source, OPERANDS)
    error = caught.value
    assert error.message.endswith((".", ".)")), error.message
    assert error.remedy
    return error


# In a body whose first line is line 5: the code, the line, a word of the message, a word of the remedy.
BODIES = {
    "if": ("if acc > 0:\n    y = acc\nreturn {'o': y}", "control-flow", 5, "if statement", "where("),
    "ternary": ("y = acc\nreturn {'o': acc if y > 0 else y}", "control-flow", 6, "conditional", "where("),
    "match": ("match acc:\n    case 1:\n        return {'o': acc}", "control-flow", 5, "match", "where("),
    "for": ("for i in range(3):\n    acc = acc + i\nreturn {'o': acc}", "control-flow", 5, "for loop", "row_sum"),
    "while": ("while True:\n    acc = acc + 1\nreturn {'o': acc}", "control-flow", 5, "while loop", "row_sum"),
    "lambda": ("g = lambda x: x\nreturn {'o': g(acc)}", "definition", 5, "lambda", "helper function"),
    "list comprehension": ("y = [x for x in acc]\nreturn {'o': acc}", "comprehension", 5, "list compr", "row_sum"),
    "set comprehension": ("y = {x for x in acc}\nreturn {'o': acc}", "comprehension", 5, "set compr", "row_sum"),
    "dict comprehension": ("return {k: acc for k in 'ab'}", "comprehension", 5, "dict compr", "return {"),
    "generator": ("y = sum(x for x in acc)\nreturn {'o': y}", "comprehension", 5, "generator", "row_sum"),
    "f-string": ("y = f'{acc}'\nreturn {'o': acc}", "string", 5, "f-string", "numbers"),
    "f-string key": ("return {f'o': acc}", "string", 5, "f-string", "numbers"),
    "string": ("y = 'text'\nreturn {'o': acc}", "string", 5, "string", "numbers"),
    "string statement": ("y = acc\n'text'\nreturn {'o': acc}", "string", 6, "string", "comment"),
    "bytes": ("y = acc + b'x'\nreturn {'o': y}", "string", 5, "string", "numbers"),
    "torch.relu": ("return {'o': torch.relu(acc)}", "attribute", 5, "torch.relu", "relu(x)"),
    "F.gelu": ("return {'o': torch.nn.functional.gelu(acc)}", "attribute", 5, "torch.nn.functional.gelu", "gelu(x)"),
    "method": ("return {'o': acc.relu()}", "attribute", 5, "acc.relu", "relu(x)"),
    "method of a call": ("return {'o': silu(acc).exp()}", "attribute", 5, "(...).exp", "exp(x)"),
    "acc.shape": ("n = acc.shape[1]\nreturn {'o': acc}", "attribute", 5, "acc.shape", "one element"),
    "acc.float": ("return {'o': acc.float()}", "attribute", 5, "acc.float", "float32"),
    "math.pi": ("return {'o': acc * math.pi}", "attribute", 5, "math.pi", "3.14159"),
    "dunder": ("return {'o': acc.__class__}", "attribute", 5, "__class__", "Use only"),
    "logsumexp": ("return {'o': torch.logsumexp(acc, -1)}", "attribute", 5, "torch.logsumexp", "row_lse"),
    "sum": ("return {'o': acc.sum(-1)}", "attribute", 5, "acc.sum", "row_sum"),
    "chunk": ("g, u = acc.chunk(2, -1)\nreturn {'o': g}", "attribute", 5, "acc.chunk", "unpack"),
    "even columns": ("return {'o': acc[..., ::2]}", "subscript", 5, "subscript", "unpack"),
    "new axis": ("return {'o': acc * rstd[:, None]}", "subscript", 5, "subscript", "broadcast"),
    "starred argument": ("return {'o': pack(*unpack(acc))}", "expression", 5, "starred", "one by one"),
    "starred target": ("a, *b = unpack(acc)\nreturn {'o': a}", "expression", 5, "starred", "one by one"),
    "double starred": ("return {'o': silu(**acc)}", "expression", 5, "starred", "silu(x)"),
    "walrus": ("return {'o': (y := acc) + y}", "expression", 5, ":=", "line of its own"),
    "and": ("return {'o': where(acc > 0 and acc < 1, acc, 0)}", "expression", 5, "`and`", "&"),
    "not": ("return {'o': where(not acc > 0, acc, 0)}", "expression", 5, "not", "x <= 0"),
    "invert": ("return {'o': where(~(acc > 0), acc, 0)}", "expression", 5, "~", "x <= 0"),
    "chained comparison": ("return {'o': where(0 < acc < 1, acc, 0)}", "chained-comparison", 5, "chained", "&"),
    "is": ("return {'o': where(acc is 0, acc, 0)}", "operator", 5, "`is`", "=="),
    "modulo": ("return {'o': acc % 2}", "operator", 5, "Mod", "+ - * /"),
    "floor division": ("return {'o': acc // 2}", "operator", 5, "FloorDiv", "+ - * /"),
    "product of matrices": ("return {'o': acc @ acc}", "operator", 5, "MatMult", "+ - * /"),
    "power of five": ("return {'o': acc ** 5}", "operator", 5, "exponent 5", "Multiply"),
    "power of a value": ("return {'o': acc ** acc}", "operator", 5, "not a constant", "exp(b * log(a))"),
    "global": ("global acc\nreturn {'o': acc}", "statement", 5, "Global", "arguments"),
    "nonlocal": ("nonlocal acc\nreturn {'o': acc}", "statement", 5, "Nonlocal", "arguments"),
    "try": ("try:\n    y = acc\nexcept E:\n    y = 0\nreturn {'o': y}", "statement", 5, "Try", "assignments"),
    "with": ("with acc:\n    y = acc\nreturn {'o': y}", "statement", 5, "with statement", "assignments"),
    "class": ("class A:\n    pass\nreturn {'o': acc}", "definition", 5, "class", "helper function"),
    "nested function": ("def g(x):\n    return x\nreturn {'o': g(acc)}", "definition", 5, "inside", "top level"),
    "import inside": ("import torch\nreturn {'o': acc}", "import", 5, "torch", "codasmith.primitives"),
    "import from inside": ("from codasmith.primitives import cos\nreturn {'o': acc}", "import", 5, "inside", "top"),
    "assert": ("assert acc > 0\nreturn {'o': acc}", "statement", 5, "Assert", "assignments"),
    "print": ("print(acc)\nreturn {'o': acc}", "unknown-name", 5, "print", "never run"),
    "unused call": ("relu(acc)\nreturn {'o': acc}", "unused-value", 5, "not used", "name = value"),
    "unused name": ("acc\nreturn {'o': acc}", "unused-value", 5, "not used", "name = value"),
    "del": ("del acc\nreturn {'o': acc}", "statement", 5, "Del", "assignments"),
    "raise": ("raise acc", "statement", 5, "Raise", "assignments"),
    "pass": ("pass", "statement", 5, "Pass", "return"),
    "yield": ("yield acc", "statement", 5, "Yield", "return"),
    "await": ("await acc", "statement", 5, "Await", "assignments"),
    "annotated assignment": ("y: float = acc\nreturn {'o': y}", "annotation", 5, "annotated", "name = value"),
    "list": ("return {'o': [acc]}", "expression", 5, "list", "one by one"),
    "set": ("return {'o': {acc}}", "expression", 5, "set", "one by one"),
    "dict inside": ("y = {'o': acc}\nreturn y", "bad-return", 5, "dict", "return {"),
    "True": ("return {'o': where(True, acc, 0)}", "bad-constant", 5, "True", "number"),
    "None": ("return {'o': clamp(acc, 0, None)}", "bad-constant", 5, "None", "number"),
    "complex": ("return {'o': acc * 1j}", "bad-constant", 5, "1j", "number"),
    "infinite": ("return {'o': maximum(acc, -1e999)}", "bad-constant", 5, "inf", "-1e30"),
    "huge integer": ("return {'o': acc + 1" + "0" * 400 + "}", "bad-constant", 5, "too large", "smaller"),
    "division by zero": ("return {'o': acc * (1 / 0)}", "bad-constant", 5, "div of 1, 0", "constants"),
    "root of a negative": ("return {'o': acc * (-1) ** 0.5}", "bad-constant", 5, "finite", "constants"),
    "unknown name": ("return {'o': acc * rst}", "unknown-name", 5, "rst ", "rstd"),
    "operand not a parameter": ("return {'o': acc * rstd}", "unknown-name", 5, "rstd", "add it to the parameters"),
    "unknown function": ("return {'o': slu(acc)}", "unknown-name", 5, "slu", "silu"),
    "swish": ("return {'o': swish(acc)}", "unknown-name", 5, "swish", "silu(x)"),
    "builtin max": ("return {'o': max(acc, 0)}", "unknown-name", 5, "max", "maximum"),
    "primitive not imported": ("return {'o': tanh(acc)}", "unknown-name", 5, "tanh", "import tanh"),
    "function as value": ("return {'o': acc * silu}", "bad-call", 5, "silu", "silu(...)"),
    "value called": ("return {'o': acc(1)}", "bad-call", 5, "acc", "another name"),
    "use before assignment": ("y = z + 1\nz = acc\nreturn {'o': y}", "unassigned", 5, "z ", "above"),
    "own name of a primitive": ("exp = exp(acc)\nreturn {'o': exp}", "bad-call", 5, "exp", "another name"),
    "too many values": ("a, b = acc\nreturn {'o': a}", "bad-assignment", 5, "2 names", "unpack"),
    "too many names": ("a, b, c = unpack(acc)\nreturn {'o': a}", "bad-assignment", 5, "3 names", "unpack"),
    "subscript target": ("acc[0] = 1\nreturn {'o': acc}", "subscript", 5, "subscript", "unpack"),
    "pair as a value": ("return {'o': silu(unpack(acc))}", "tuple", 5, "Several values", "unpack"),
    "pair returned": ("return {'o': unpack(acc)}", "tuple", 5, "Several values", "unpack"),
    "missing argument": ("return {'o': clamp(acc, 0)}", "bad-arguments", 5, "without high", "clamp(x, low, high)"),
    "extra argument": ("return {'o': silu(acc, 1)}", "bad-arguments", 5, "takes 1", "silu(x)"),
    "unknown keyword": ("return {'o': silu(acc, inplace=1)}", "bad-arguments", 5, "inplace", "silu(x)"),
    "argument twice": ("return {'o': silu(acc, x=acc)}", "bad-arguments", 5, "x twice", "silu(x)"),
    "reduction used": ("return {'o': acc * row_sum(acc)}", "reduction-used", 5, "mul", "later stage"),
    "truth returned": ("return {'o': acc > 0}", "bad-output", 5, "truth", "where("),
    "arithmetic on truth": ("return {'o': acc * (acc > 0)}", "bad-condition", 5, "mul", "where("),
    "packed truth": ("return {'o': pack(acc > 0, acc > 0)}", "bad-condition", 5, "pack", "where("),
    "condition is a number": ("return {'o': where(acc, acc, 0)}", "bad-condition", 5, "number", "x > 0"),
    "or of numbers": ("return {'o': acc | 1}", "bad-condition", 5, "number", "Compare"),
    "constant returned": ("return {'o': 1.0}", "bad-output", 5, "o is [1 x 1]", "fills the tile"),
    "unpacked twice": ("a, b = unpack(acc)\nc, d = unpack(a)\nreturn {'o': c}", "bad-unpack", 6, "N/2", "once"),
    "widths": ("a, b = unpack(acc)\nreturn {'o': a + acc}", "width-mismatch", 6, "N/2 and N", "unpack"),
    "packed too wide": ("return {'o': pack(pack(acc, acc), 0)}", "bad-pack", 5, "pack", "unpack"),
    "reduction of a vector": ("return {'o': row_sum(2.0)}", "bad-reduction", 5, "fills the tile", "accumulator"),
    "select by a value": ("return {'o': select(acc, acc)}", "bad-index", 5, "second argument", "select(y, target)"),
    "returns a value": ("return acc", "bad-return", 5, "dict", "return {"),
    "returns nothing": ("return", "bad-return", 5, "dict", "return {"),
    "returns a call of dict": ("return dict(o=acc)", "bad-return", 5, "dict", "return {"),
    "empty dict": ("return {}", "bad-return", 5, "dict", "return {"),
    "key not a string": ("return {1: acc}", "bad-return", 5, "key", '"name"'),
    "key not a name": ("return {'a b': acc}", "bad-return", 5, "key", '"name"'),
    "dict unpacked": ("return {**acc}", "bad-return", 5, "key", '"name"'),
    "duplicate key": ("return {'o': acc,\n 'o': acc}", "duplicate-output", 6, "o ", "once"),
    "missing return": ("y = acc", "bad-return", 4, "no return", "return {"),
    "unreachable": ("return {'o': acc}\ny = acc", "unreachable", 6, "never reached", "return"),
}


@pytest.mark.parametrize("case", BODIES)
def test_refused_in_a_body(case):
    body, code, line, message, remedy = BODIES[case]
    indented = "".join(f"    {text}\n" for text in body.split("\n"))
    error = refused(f"{IMPORTS}@epilogue\ndef f(acc):\n{indented}")
    assert (error.code, error.line) == (code, line), str(error)
    assert message in error.message
    assert remedy in error.remedy


# Whole files.
FILES = {
    "import torch": ("import torch\n" + IMPORTS + OK, "import", 1, "torch", "codasmith.primitives"),
    "import from torch": ("from torch import relu\n" + IMPORTS + OK, "import", 1, "torch", "codasmith.primitives"),
    "import from a relative": ("from .values import exp\n" + IMPORTS + OK, "import", 1, ".values", "only"),
    "future": ("from __future__ import annotations\n" + IMPORTS + OK, "import", 1, "__future__", "only"),
    "star import": (HEAD + OK, "import", 1, "*", "Name what you use"),
    "import of the registry": (
        "from codasmith.primitives import REGISTRY\n" + IMPORTS + OK, "unknown-name", 1, "REGISTRY", "Use only"),
    "misspelt import": ("from codasmith.primitives import gelu_tan\n" + OK, "unknown-name", 1, "gelu_tan", "gelu_tanh"),
    "other decorator": (IMPORTS + "@torch.compile\n" + OK, "decorator", 3, "decorator", "@epilogue"),
    "called decorator": (IMPORTS + OK.replace("@epilogue", "@epilogue()"), "decorator", 3, "bare", "@epilogue"),
    "unknown decorator": (IMPORTS + OK.replace("@epilogue", "@jit"), "decorator", 3, "@jit", "@epilogue"),
    "epilogue not imported": (
        "from codasmith.primitives import exp\n" + OK, "decorator", 2, "@epilogue", "import epilogue"),
    "two decorators": (IMPORTS + "@epilogue\n" + OK, "decorator", 5, "twice", "once"),
    "decorator of a helper": (IMPORTS + "@silu\ndef h(x):\n    return x\n" + OK, "decorator", 3, "@silu", "@epilogue"),
    "no epilogue": (IMPORTS + "def f(acc):\n    return {'o': acc}\n", "no-epilogue", None, "decorated", "@epilogue"),
    "empty": ("", "no-epilogue", None, "decorated", "@epilogue"),
    "two epilogues": (IMPORTS + OK + OK.replace("f(", "g("), "several-epilogues", 7, "Two", "one"),
    "default": (IMPORTS + OK.replace("acc)", "acc, rstd=1)"), "default-argument", 4, "default", "body"),
    "keyword only": (IMPORTS + OK.replace("acc)", "acc, *, rstd)"), "parameters", 4, "plain", "def f"),
    "positional only": (IMPORTS + OK.replace("acc)", "acc, /)"), "parameters", 4, "plain", "def f"),
    "varargs": (IMPORTS + OK.replace("acc)", "acc, *args)"), "parameters", 4, "plain", "def f"),
    "kwargs": (IMPORTS + OK.replace("acc)", "acc, **kw)"), "parameters", 4, "plain", "def f"),
    "parameter twice": (IMPORTS + OK.replace("acc)", "acc, rstd, rstd)"), "parameters", 4, "two parameters", "Rename"),
    "annotation": (IMPORTS + OK.replace("acc)", "acc: float)"), "annotation", 4, "acc", "Remove"),
    "return annotation": (IMPORTS + OK.replace("):", ") -> dict:"), "annotation", 4, "f ", "Remove"),
    "no acc": (IMPORTS + OK.replace("(acc)", "(x)"), "parameters", 4, "first parameter", "def f(acc"),
    "no parameters": (IMPORTS + OK.replace("(acc)", "()"), "parameters", 4, "first parameter", "def f(acc"),
    "unknown operand": (IMPORTS + OK.replace("acc)", "acc,\n  gamma)"), "unknown-operand", 5, "gamma", "rstd, bias"),
    "async": (IMPORTS + OK.replace("def", "async def"), "definition", 4, "async", "def"),
    "statement": (IMPORTS + "silu(1.0)\n" + OK, "statement", 3, "outside of a function", "NAME = number"),
    "main guard": (IMPORTS + OK + "if __name__ == '__main__':\n    f(1)\n", "control-flow", 6, "if", "where"),
    "constant from a value": (IMPORTS + "C = silu\n" + OK, "bad-call", 3, "silu", "silu(...)"),
    "constant from text": (IMPORTS + "C = 'x'\n" + OK, "string", 3, "string", "numbers"),
    "constant from a primitive": (IMPORTS + "C = exp(1.0)\n" + OK, "constant", 3, "not a number", "NAME = number"),
    "constant from a helper": (
        IMPORTS + "def h(x):\n    return x\nC = h(1.0)\n" + OK, "constant", 5, "calls a function", "NAME = number"),
    "constants in a tuple": (IMPORTS + "A, B = 1, 2\n" + OK, "constant", 3, "one name", "NAME = number"),
    "constant used above": (IMPORTS + "A = B\nB = 1\n" + OK, "unknown-name", 3, "B", "Use only"),
    "constant too large": (IMPORTS + "A = 9 ** 9 ** 9\n" + OK, "bad-constant", 3, "(9) ** (3.8742e+08)", "constants"),
    "constant that is no number": (IMPORTS + "A = (-8) ** 0.5\n" + OK, "bad-constant", 3, "(-8) ** (0.5)", "constants"),
    "more digits than Python reads": (
        IMPORTS + "A = " + "9" * 5000 + "\n" + OK, "bad-constant", 3, "too large for float32", "smaller"),
    "defined twice": (IMPORTS + "silu = 2.0\n" + OK, "defined-twice", 3, "silu", "another name"),
    "epilogue named like an import": (
        IMPORTS + OK.replace("f(", "relu("), "defined-twice", 4, "relu", "another name"),
    "recursion": (
        IMPORTS + "def h(x):\n    return h(x)\n" + OK.replace("acc}", "h(acc)}"), "recursion", 4, "h ", "terms"),
    "recursion of two": (
        IMPORTS + "def h(x):\n    return k(x)\ndef k(x):\n    return h(x)\n" + OK.replace("acc}", "h(acc)}"),
        "recursion", 6, "h ", "terms"),
    "epilogue calls itself": (IMPORTS + OK.replace("acc}", "f(acc)}"), "bad-call", 5, "epilogue f", "helper"),
    "helper without return": (
        IMPORTS + "def h(x):\n    y = x\n" + OK.replace("acc}", "h(acc)}"),
        "bad-return", 3, "no return", "return value"),
    "helper returns nothing": (
        IMPORTS + "def h(x):\n    return\n" + OK.replace("acc}", "h(acc)}"), "bad-return", 4, "nothing", "value"),
    "helper called wrongly": (
        IMPORTS + "def h(x, y):\n    return x\n" + OK.replace("acc}", "h(acc)}"),
        "bad-arguments", 7, "without y", "h(x, y)"),
    "construct in an unused helper": (
        IMPORTS + "def h(x):\n    return x.data\n" + OK, "attribute", 4, "x.data", "Use only"),
    "prose": ("Here is the kernel you asked for.\n" + OK, "syntax", 1, "not Python", "one file"),
    "fence": ("```python\n" + OK + "```\n", "syntax", 1, "not Python", "one file"),
    "unclosed": (IMPORTS + OK.replace("}", ""), "syntax", 5, "never closed", "one file"),
    "look-alike": (IMPORTS + OK.replace("acc}", "ｓilu(acc)}"), "non-ascii", 5, "ｓilu", "a-z"),
    "greek name": (IMPORTS + OK.replace("    return", "    σ = acc\n    return"), "non-ascii", 5, "σ", "a-z"),
    "bidirectional mark": (IMPORTS + "# \u202e\n" + OK, "non-ascii", 3, "U+202E", "Remove"),
    "zero-width space": (IMPORTS + "# a\u200bb\n" + OK, "non-ascii", 3, "U+200B", "Remove"),
    "return that hides a line": (IMPORTS + "# x\rsilu = 2.0\n" + OK, "non-ascii", 3, "U+000D", "Remove"),
    "return that hides a look-alike": (IMPORTS + "#\rｆ = 2.0\n" + OK, "non-ascii", 3, "U+000D", "Remove"),
    "line of an editor's alone": (IMPORTS + "# a\u2028b = 2.0\n" + OK, "non-ascii", 3, "U+2028", "Remove"),
    "escape of eight bits": (IMPORTS + "# \x9b2J\n" + OK, "non-ascii", 3, "U+009B", "Remove"),
    "another encoding": ("# coding: utf-7\n" + IMPORTS + OK, "encoding", None, "utf-7", "UTF-8"),
    "another encoding after a return": ("#\r# vim: fileencoding=utf-7\n" + OK, "encoding", None, "utf-7", "UTF-8"),
    "index computed with": (
        IMPORTS + OK.replace("(acc)", "(acc, target)").replace("acc}", "acc + target}"),
        "bad-index", 5, "column numbers", "select(y, target)"),
    "index returned": (
        IMPORTS + OK.replace("(acc)", "(acc, target)").replace("acc}", "target}"),
        "bad-output", 5, "column numbers", ""),
    "operand returned": (
        IMPORTS + OK.replace("(acc)", "(acc, bias)").replace("acc}", "bias}"), "bad-output", 5, "every row", "fills"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_refused_file(case):
    source, code, line, message, remedy = FILES[case]
    error = refused(source)
    assert (error.code, error.line) == (code, line), str(error)
    assert message in error.message
    assert remedy in error.remedy
    assert str(error).startswith(f"line {line}: " if line else error.message)


def test_an_error_inside_a_helper_says_who_called_it():
    error = refused(IMPORTS + "def h(x):\n    return x + unpack_of(x)\n" + OK.replace("acc}", "h(acc)}"))
    assert error.line == 4
    error = refused(IMPORTS + "def h(x):\n    return x * (x > 0)\n" + OK.replace("acc}", "h(acc)}"))
    assert error.line == 4
    assert "(In h, called on line 7.)" in error.message


# Too large, too deep: a finding, never a crash.
def body(expression):
    return f"{IMPORTS}@epilogue\ndef f(acc):\n    return {{'o': {expression}}}\n"


DEEP = {
    "parentheses": body("(" * 150 + "acc" + ")" * 150),
    "far too many parentheses": body("(" * 20_000 + "acc" + ")" * 20_000),
    "minus signs": body("-" * 30_000 + "acc"),
    "a long sum": body("acc" + " + acc" * 5_000),
    "powers": body("acc" + "**2" * 10_000),
    "calls": body("silu(" * 120 + "acc" + ")" * 120),
    "helpers": IMPORTS
    + "def h0(x):\n    return x\n"
    + "".join(f"def h{i}(x):\n    return h{i - 1}(x)\n" for i in range(1, 400))
    + OK.replace("acc}", "h399(acc)}"),
    "attributes": body("acc" + ".a" * 10_000),
    "subscripts": body("acc" + "[0]" * 10_000),
}


@pytest.mark.parametrize("case", [c for c in DEEP if c != "parentheses"])
def test_deep_nesting_is_refused(case):
    error = refused(DEEP[case])
    assert error.code in ("too-deep", "syntax", "attribute", "subscript"), str(error)


def test_parentheses_alone_do_not_nest():
    assert read(DEEP["parentheses"], OPERANDS).outputs == {"o": 0}


def test_deep_nesting_is_refused_far_down_the_stack():
    def down(n):
        return down(n - 1) if n else refused(body("-" * 90 + "acc"))

    depth = sys.getrecursionlimit() - 150
    assert down(max(depth - len_of_stack(), 0)).code == "too-deep"


def len_of_stack():
    frame, n = sys._getframe(), 0
    while frame:
        frame, n = frame.f_back, n + 1
    return n


def test_too_long_a_source_is_refused():
    assert refused("#" * 65_537 + "\n" + OK).code == "too-large"


def test_too_many_operations_are_refused():
    lines = "".join(f"    acc = acc * {i}.5\n" for i in range(1, 1100))
    error = refused(f"{IMPORTS}@epilogue\ndef f(acc):\n{lines}    return {{'o': acc}}\n")
    assert error.code == "too-large"
    assert "2000" in error.message


def test_helpers_that_multiply_are_refused_in_time():
    helpers = "def h0(x):\n    return x\n" + "".join(
        f"def h{i}(x):\n    return h{i - 1}(x) + h{i - 1}(x)\n" for i in range(1, 40)
    )
    assert refused(IMPORTS + helpers + OK.replace("acc}", "h39(acc)}")).code == "too-large"


def test_a_helper_that_names_one_value_over_and_over_is_refused_in_time():
    names = " = ".join(f"a{i}" for i in range(6000))
    helpers = f"def h0(x):\n    {names} = x\n    return a0\n" + "".join(
        f"def h{i}(x):\n    return h{i - 1}(x) + h{i - 1}(x)\n" for i in range(1, 14)
    )
    error = refused(IMPORTS + helpers + OK.replace("acc}", "h13(acc)}"))
    assert error.code == "too-large" and "50000 names" in error.message


@pytest.mark.parametrize(
    "top", ["# -*- coding: utf-8 -*-\n", "# Encoding: as halves\n", "# coding=ascii\n", "\r\n\t\x0c\r\n"]
)
def test_what_says_that_it_is_utf8_or_nothing_that_python_knows_is_read_and_so_are_the_ends_of_lines_of_windows(top):
    assert read((top + IMPORTS + OK).replace("\n", "\r\n").replace("\r\r", "\r"), OPERANDS).outputs == {"o": 0}


@pytest.mark.parametrize(
    "source", ["\x00", "a\x00b", "\ud800", "x = '\ud800'", "\ufeff\ufeff", "\x0c\x0b", "def", "'''"]
)
def test_odd_bytes_are_refused(source):
    refused(source)


FRAGMENTS = [
    *'( ) [ ] { } : , = := * ** - / @ . -> ; # \' """ \\ é \u202e 🙂 \x00'.split(" "),  # noqa: SIM905
    *"acc silu unpack where row_sum epilogue f o 'o' x.y acc[0] 1 1e999 0x10 1j None True ... f'{acc}'".split(),  # noqa: SIM905
    *"if else for in not and return def class import await async yield del match case with type except*".split(),  # noqa: SIM905
    *("\n", "\n    ", "\t", "\r", "\x0c", "lambda x: ", "global acc", "try:", "type X = "),
]


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 6))
def test_damaged_sources_give_a_graph_or_a_finding(seed, count):
    random = Random(seed)
    source = IMPORTS + (
        "C = 2.0\ndef h(x, y):\n    z = x * y\n    return z, z + C\n"
        "@epilogue\ndef f(acc, rstd):\n    a, b = h(acc, rstd)\n    g, u = unpack(a)\n"
        '    return {"o": silu(g) * u, "s": row_sum(b, b), "w": where(acc > 0, acc, -acc ** 2)}\n'
    )
    for _ in range(count):
        start = random.randrange(len(IMPORTS), len(source))
        source = source[:start] + f"{random.choice(FRAGMENTS)} " + source[start + random.randrange(6) :]
    try:
        assert read(source, OPERANDS).outputs
    except ReadError as error:
        assert error.message and error.code
