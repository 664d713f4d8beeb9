"""What a reference's source means: the code that its digest covers.

The function itself without decorators, docstring and comments, and everything of the same file that it
uses: helper functions, and constants by value.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType

from ..primitives.syntax import syntax_tree
from .errors import TaskError


def source_of(reference: Callable) -> str:
    """The source as written. Raises TaskError where there is no file."""
    try:
        return inspect.getsource(reference)
    except (OSError, TypeError):
        name = getattr(reference, "__name__", repr(reference))
        raise TaskError(f"the source of {name!r} cannot be read; define the task in a file, not in a prompt") from None


def meaning(reference: Callable) -> str:
    """The reference and what it uses of its file, normalised."""
    parts: dict[str, str] = {}
    reference = inspect.unwrap(reference)
    if not isinstance(reference, FunctionType):
        raise TaskError(f"the reference {reference!r} is not a function; put @task on a function")
    _collect(reference, parts)
    return "\n\n".join(f"{name}:\n{text}" for name, text in sorted(parts.items()))


def _collect(function: FunctionType, parts: dict[str, str]) -> None:
    parts[function.__name__] = _normalised(source_of(function))
    for name in sorted(_names(function.__code__)):
        if name in parts or name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _collect(value, parts)
        elif isinstance(value, int | float | str | bool | tuple | list | dict | None):
            parts[name] = repr(value)


def _names(code: CodeType) -> set[str]:
    nested = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*(_names(c) for c in nested))


def _normalised(source: str) -> str:
    try:
        tree = syntax_tree(textwrap.dedent(source))
    except SyntaxError:  # a lambda in the middle of a line: take it as it stands
        return source.strip()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
