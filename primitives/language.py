"""What a candidate's source may contain, checked on its syntax tree before anything is made of it.

A file that passes has no construct that does anything when the file is imported: imports of primitives,
numeric constants, functions without decorators (but `@epilogue`), defaults and annotations.  Every
refusal names the construct, its line, and what to write instead.
"""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
import unicodedata
from collections.abc import Iterable, Iterator

from .node import GraphError
from .primitive import REGISTRY
from .syntax import other_encoding, syntax_tree

PACKAGE = "codasmith.primitives"
MAX_BYTES = 64 * 1024


class ReadError(GraphError):
    """Why a candidate cannot be read: the line, what stands there, and what to write instead."""

    def __init__(self, line: int | None, message: str, remedy: str = "", code: str = "bad-expression"):
        super().__init__(message, remedy, code)
        self.line = line

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.message} {self.remedy}".strip()


WHERE = "Write where(condition, a, b): both sides are values of every element."
LOOP = "Write the terms out; a sum over columns or rows is row_sum(x) or col_sum(x), as a returned value."
PLAIN = "Remove it: an epilogue is assignments and one return."
ONE_FUNCTION = "Write a helper function at the top level of the file and call it by name."
ENCODING = "A comment at the top says that the file is in {}: Python would read another text than what stands here."
UTF8 = "Remove the comment: a candidate is UTF-8."
UNPACK = "Write even, odd = unpack(x) for alternating columns; other columns are out of a lane's reach."

# Node type -> (code, name of the construct, remedy).
REFUSED: dict[str, tuple[str, str, str]] = {
    "If": ("control-flow", "an if statement", WHERE),
    "IfExp": ("control-flow", "a conditional expression (a if condition else b)", WHERE),
    "Match": ("control-flow", "a match statement", WHERE),
    "For": ("control-flow", "a for loop", LOOP),
    "AsyncFor": ("control-flow", "an async for loop", LOOP),
    "While": ("control-flow", "a while loop", LOOP),
    "Break": ("control-flow", "break", PLAIN),
    "Continue": ("control-flow", "continue", PLAIN),
    "ListComp": ("comprehension", "a list comprehension", LOOP),
    "SetComp": ("comprehension", "a set comprehension", LOOP),
    "DictComp": ("comprehension", "a dict comprehension", 'Write the returned dict out: return {"name": value}.'),
    "GeneratorExp": ("comprehension", "a generator expression", LOOP),
    "Lambda": ("definition", "a lambda", ONE_FUNCTION),
    "ClassDef": ("definition", "a class", ONE_FUNCTION),
    "AsyncFunctionDef": ("definition", "an async function", "Write def instead of async def."),
    "JoinedStr": ("string", "an f-string", "Remove it: values are numbers."),
    "Await": ("statement", "await", PLAIN),
    "Yield": ("statement", "yield", 'Write return {"name": value} instead.'),
    "YieldFrom": ("statement", "yield from", 'Write return {"name": value} instead.'),
    "Starred": ("expression", "a starred argument or target", "Write the values out one by one."),
    "NamedExpr": ("expression", "an assignment inside an expression (:=)", "Assign on a line of its own."),
    "BoolOp": ("expression", "`and` or `or`", "Join conditions with & or |, each in parentheses: (a > b) & (c > d)."),
    "List": ("expression", "a list", "Write the values out one by one."),
    "Set": ("expression", "a set", "Write the values out one by one."),
    "Global": ("statement", "global", "Pass values as arguments and return them."),
    "Nonlocal": ("statement", "nonlocal", "Pass values as arguments and return them."),
    "Try": ("statement", "try", PLAIN),
    "TryStar": ("statement", "try", PLAIN),
    "With": ("statement", "a with statement", PLAIN),
    "AsyncWith": ("statement", "an async with statement", PLAIN),
    "Assert": ("statement", "assert", PLAIN),
    "Delete": ("statement", "del", PLAIN),
    "Raise": ("statement", "raise", PLAIN),
    "Pass": ("statement", "pass", 'End the function with return {"name": value}.'),
    "AnnAssign": ("annotation", "an annotated assignment", "Write name = value."),
    "TypeAlias": ("statement", "a type alias", PLAIN),
}
ALLOWED = {
    *("Module", "ImportFrom", "FunctionDef", "Assign", "AugAssign", "Return", "Expr"),
    *("Name", "Constant", "BinOp", "UnaryOp", "Compare", "Call", "keyword", "Tuple", "Dict"),
}

IS_FLOAT32 = "Remove it: values are float32, and each output is rounded to its declared dtype."
BROADCASTS = "Remove it: vectors broadcast along rows or columns by their declared shape."
NO_SHAPE = "Remove it: an epilogue is written for one element, whatever the shape."

# What people write for what is called something else here.
KNOWN: dict[str, str] = {
    **dict.fromkeys(("float", "to", "type", "half", "double", "bfloat16", "type_as", "Float32", "float32"), IS_FLOAT32),
    **dict.fromkeys(("unsqueeze", "squeeze", "view", "reshape", "expand", "broadcast_to", "T", "t"), BROADCASTS),
    **dict.fromkeys(("shape", "size", "dtype", "device", "ndim", "numel", "len", "range", "int"), NO_SHAPE),
    **dict.fromkeys(("chunk", "split", "unbind", "tensor_split"), "Write even, odd = unpack(x)."),
    **dict.fromkeys(("stack", "cat", "concat", "flatten"), "Write pack(even, odd)."),
    **dict.fromkeys(("square", "pow"), "Write x * x or x ** 2."),
    **dict.fromkeys(("gather", "take_along_dim", "index_select"), "Return select(y, target)."),
    **dict.fromkeys(("clip", "clamp_min", "clamp_max", "hardtanh"), "Write clamp(x, low, high), maximum or minimum."),
    **dict.fromkeys(("logical_not", "not_"), "Turn the comparison round: x <= 0 for not x > 0."),
    **dict.fromkeys(("softmax", "log_softmax"), "Return row_lse(y); a softmax needs the whole row before it is used."),
    **dict.fromkeys(("print", "getattr", "eval", "exec", "open", "setattr"), "Remove it: the file is read, never run."),
    "sum": "Return row_sum(x) (over columns) or col_sum(x) (over rows).",
    "mean": "Return row_sum(x) or col_sum(x); the division belongs to a later stage.",
    "norm": "Return row_sum(x, x); what needs the whole row belongs to a later stage.",
    "max": "Write maximum(a, b), or return row_max(x).",
    "amax": "Return row_max(x) or col_max(x).",
    "min": "Write minimum(a, b).",
    "logsumexp": "Return row_lse(x).",
    "logaddexp": "Write softplus(x) for log(1 + exp(x)).",
    "swish": "Write silu(x).",
    "rotate_half": "Write rotate(x, cos, sin) on pairs of columns.",
    "sign": "Write where(x > 0, 1.0, -1.0).",
    "pi": "Write the number: 3.141592653589793.",
    "e": "Write the number: 2.718281828459045.",
    "inf": "Write a large number such as 1e30.",
    "dict": 'Write return {"name": value}.',
    "dropout": "Leave it out: the vocabulary has no random numbers.",
    "rms_norm": "Over a head: acc * rsqrt(head_sum(acc * acc, 128) / 128 + 1e-6); a row's is a later stage's.",
    "arange": "Write column_index(y) or row_index(y).",
    "one_hot": "Write where(column_index(y) == target, 1.0, 0.0).",
    **dict.fromkeys(("tril", "triu"), "Write where(column_index(y) <= row_index(y), y, 0.0), or as needed."),
    "fabs": "Write abs(x).",
    "true_divide": "Write a / b.",
}


def parse(source: str) -> ast.Module:
    """The syntax tree of a source that keeps to the language's outline. Raises ReadError."""
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        raise ReadError(
            None, f"The source is longer than {MAX_BYTES // 1024} kB.", "Write a shorter file.", "too-large"
        )
    try:
        tree = syntax_tree(source)
    except SyntaxError as error:
        if "Exceeds the limit" in error.msg:  # of digits
            raise ReadError(
                error.lineno, "This number is too large for float32.", "Write a smaller one.", "bad-constant"
            ) from None
        raise ReadError(
            error.lineno,
            f"This is not Python: {error.msg}.",
            "Answer with one file of Python code and nothing else.",
            "syntax",
        ) from None
    except ValueError:
        raise ReadError(None, "The source holds a character that no file may hold.", "Remove it.", "syntax") from None
    except (RecursionError, MemoryError):
        raise ReadError(None, "An expression is nested too deeply.", "Give its parts names.", "too-deep") from None
    if encoding := other_encoding(source):
        raise ReadError(None, ENCODING.format(encoding), UTF8, "encoding")
    _check_characters(source)
    for node in _walk(tree):
        _check(node)
    return tree


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node from top to bottom without recursion, except what is checked with its parent."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.FunctionDef):
            children: Iterable[ast.AST] = node.body
        else:
            skipped = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.alias)
            children = [c for c in ast.iter_child_nodes(node) if not isinstance(c, skipped)]
        stack.extend(reversed(list(children)))


def _check(node: ast.AST) -> None:
    line = getattr(node, "lineno", None)
    kind = type(node).__name__
    if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Attribute):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        adds_axis = any(isinstance(p, ast.Constant) and p.value is None for p in parts)
        raise ReadError(
            line, "A subscript (x[...]) is not part of an epilogue.", BROADCASTS if adds_axis else UNPACK, "subscript"
        )
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        raise ReadError(
            line,
            f"{_dotted(node)} is attribute access, which is not part of an epilogue.",
            known(node.attr),
            "attribute",
        )
    if isinstance(node, ast.Import):
        names = ", ".join(a.name for a in node.names)
        raise ReadError(line, f"import {names} brings in a module.", f"Write from {PACKAGE} import silu, ...", "import")
    if kind in REFUSED:
        code, construct, remedy = REFUSED[kind]
        raise ReadError(line, f"{construct[0].upper()}{construct[1:]} is not part of an epilogue.", remedy, code)
    if kind not in ALLOWED:
        raise ReadError(line, f"{kind} is not part of an epilogue.", PLAIN, "statement")
    if isinstance(node, ast.FunctionDef):
        _check_signature(node)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                raise ReadError(
                    statement.lineno, "A function is defined inside a function.", ONE_FUNCTION, "definition"
                )
            if isinstance(statement, ast.ImportFrom):
                raise ReadError(
                    statement.lineno, "An import stands inside a function.", "Move it to the top of the file.", "import"
                )


def _check_signature(function: ast.FunctionDef) -> None:
    a, line, name = function.args, function.lineno, function.name
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Name):
            raise ReadError(
                decorator.lineno,
                f"The decorator of {name} is not the bare name epilogue.",
                "Write @epilogue.",
                "decorator",
            )
    if a.defaults or any(a.kw_defaults):
        value = next(d for d in (*a.defaults, *a.kw_defaults) if d is not None)
        raise ReadError(
            value.lineno,
            f"A parameter of {name} has a default.",
            "Write the number in the body instead.",
            "default-argument",
        )
    if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs:
        raise ReadError(
            line, f"{name} has parameters other than plain positional ones.", "Write def f(acc, a, b).", "parameters"
        )
    annotated = [p for p in a.args if p.annotation]
    if annotated or function.returns or getattr(function, "type_params", None):
        what = f"Parameter {annotated[0].arg} of {name}" if annotated else f"The function {name}"
        raise ReadError(
            annotated[0].lineno if annotated else line, f"{what} is annotated.", "Remove the annotation.", "annotation"
        )
    names = [p.arg for p in a.args]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice:
        raise ReadError(line, f"{name} has two parameters called {twice}.", "Rename one.", "parameters")


_HIDDEN = ("Cc", "Cf", "Zl", "Zp")
"""Controls, formats, separators of lines and paragraphs: a carriage return begins a line for Python and not for all who
look at it, others do for whoever looks and not for Python."""


def _check_characters(source: str) -> None:
    for number, text in enumerate(source.split("\n"), 1):
        hidden = next(
            (c for c in text.removesuffix("\r") if c not in "\t\f" and unicodedata.category(c) in _HIDDEN), None
        )
        if hidden:
            raise ReadError(
                number, f"The invisible character U+{ord(hidden):04X} stands here.", "Remove it.", "non-ascii"
            )
    # The tree holds identifiers in compatibility form: only the tokens show what was written.
    for token in _tokens(source):
        if token.type == tokenize.NAME and not token.string.isascii():
            raise ReadError(
                token.start[0],
                f"The name {token.string} holds letters that are not ASCII.",
                "Spell it with a-z, A-Z, 0-9 and _.",
                "non-ascii",
            )


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        raise ReadError(None, "The source cannot be split into words.", "Write plain Python.", "syntax") from None


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "(...)")
    return ".".join(reversed(parts))


def known(name: str, others: Iterable[str] = ()) -> str:
    """What to write instead of a name that the language does not have."""
    if name in KNOWN:
        return KNOWN[name]
    if name in REGISTRY:
        return f"Write {REGISTRY[name].signature} after from {PACKAGE} import {name}."
    near = difflib.get_close_matches(name, [*others, *REGISTRY], n=1, cutoff=0.6)
    if near:
        imported = f" (from {PACKAGE} import {near[0]})" if near[0] in REGISTRY and near[0] not in others else ""
        return f"Perhaps you mean {near[0]}{imported}."
    return "Use only primitives, operands and names assigned before."
