"""Reads an epilogue's source into a graph. The source is parsed, never executed.

The language: imports of primitives (renamed with `as` if need be), numeric constants, helper functions,
which are inlined, and one function decorated with @epilogue that assigns names and returns one dict.
`language` refuses every other construct first, `body` turns statements and expressions into nodes; here
is the file around them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .body import Body, is_docstring
from .expression import Expressions, File
from .graph import Builder, Graph
from .language import PACKAGE, ReadError, known, parse
from .primitive import REGISTRY
from .types import Operand


def read(source: str, operands: Sequence[Operand], *, name: str | None = None) -> Graph:
    """The graph of the epilogue in a candidate's source, without what no output needs.

    operands: what the task offers; the parameters after `acc` name some of them, in any order.
    name: which epilogue to read, where a file holds several (the stages of a program); without it the
        file must hold exactly one.

    Raises ReadError, with a line and a remedy, for everything outside the language.
    """
    try:
        file = _declare(parse(source))
        return _epilogue(file, _choose(file, name), {o.name: o for o in operands})
    except RecursionError:
        raise ReadError(None, "An expression is nested too deeply.", "Give its parts names.", "too-deep") from None


def _declare(tree: ast.Module) -> File:
    file = File()
    for position, statement in enumerate(tree.body):
        line = statement.lineno
        if isinstance(statement, ast.ImportFrom):
            _import(file, statement)
        elif isinstance(statement, ast.FunctionDef):
            _fresh(file, statement.name, line)
            file.functions[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if len(statement.targets) > 1 or not isinstance(target, ast.Name):
                raise ReadError(line, "A constant of the file is not one name.", "Write NAME = number.", "constant")
            _fresh(file, target.id, line)
            file.constants[target.id] = Expressions(file, Builder()).number(statement.value)
        elif position or not is_docstring(statement):
            raise ReadError(
                line,
                "This statement stands outside of a function.",
                "Keep to imports, constants (NAME = number) and functions.",
                "statement",
            )
    return file


def _import(file: File, statement: ast.ImportFrom) -> None:
    line = statement.lineno
    if statement.module != PACKAGE or statement.level:
        origin = "." * statement.level + (statement.module or "")
        raise ReadError(
            line, f"The import from {origin} is not allowed.", f"Import primitives from {PACKAGE} only.", "import"
        )
    for alias in statement.names:
        if alias.name == "*":
            remedy = f"Name what you use: from {PACKAGE} import epilogue, silu."
            raise ReadError(line, "import * does not say what it imports.", remedy, "import")
        if alias.name not in REGISTRY and alias.name != "epilogue":
            raise ReadError(line, f"{alias.name} is not a primitive.", known(alias.name), "unknown-name")
        local = alias.asname or alias.name
        if file.imports.get(local) != alias.name:
            _fresh(file, local, line)
        file.imports[local] = alias.name


def _fresh(file: File, name: str, line: int) -> None:
    if name in file.imports or name in file.constants or name in file.functions:
        raise ReadError(line, f"{name} is defined twice in this file.", "Choose another name.", "defined-twice")


def _choose(file: File, name: str | None) -> ast.FunctionDef:
    for function in file.functions.values():
        for decorator in function.decorator_list:
            assert isinstance(decorator, ast.Name)  # `language` refused every other
            if file.imports.get(decorator.id) != "epilogue":
                raise ReadError(
                    decorator.lineno,
                    f"The decorator @{decorator.id} is not the epilogue of {PACKAGE}.",
                    f"Write from {PACKAGE} import epilogue, and @epilogue.",
                    "decorator",
                )
        if len(function.decorator_list) > 1:
            raise ReadError(
                function.lineno, f"{function.name} is decorated twice.", "Write @epilogue once.", "decorator"
            )
    chosen = [f for f in file.functions.values() if f.decorator_list and name in (None, f.name)]
    if not chosen:
        what = f"called {name} and decorated with @epilogue" if name else "decorated with @epilogue"
        raise ReadError(None, f"No function is {what}.", "Write @epilogue over def name(acc, ...).", "no-epilogue")
    if len(chosen) > 1:
        raise ReadError(
            chosen[1].lineno, "Two functions are decorated with @epilogue.", "Keep one of them.", "several-epilogues"
        )
    return chosen[0]


def _epilogue(file: File, function: ast.FunctionDef, operands: dict[str, Operand]) -> Graph:
    parameters = [p.arg for p in function.args.args]
    if parameters[:1] != ["acc"]:
        raise ReadError(
            function.lineno,
            f"The first parameter of {function.name} is not acc.",
            f"Write def {function.name}(acc, ...).",
            "parameters",
        )
    for parameter in function.args.args[1:]:
        if parameter.arg not in operands:
            offered = ", ".join(operands) or "none besides acc"
            raise ReadError(
                parameter.lineno,
                f"The parameter {parameter.arg} is not an operand of this task.",
                f"Its operands: {offered}.",
                "unknown-operand",
            )
    body = Body(file, Builder(operands[p] for p in parameters[1:]), offered=operands)
    scope = {"acc": body.node("acc", (), function)}
    for p in function.args.args[1:]:
        scope[p.arg] = body.node("operand", (), p, name=p.arg)
    return body.builder.finish(body.outputs(function, dict(scope))).canonical()
