"""NAME_fp8: a task whose operands are in fp8, with a scale for each row of both, multiplied into the product first.

Every task whose product is such as x @ w.T has one, without a file of its own: its reference is the task's, with
(x @ w.T) * x_scale[:, None] * w_scale where x @ w.T stood.  Tasks that have inputs for the scales take fp8 themselves.
"""

from __future__ import annotations

import ast
import linecache
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ..primitives.syntax import syntax_tree
from .errors import TaskError
from .task import Task

SUFFIX = "_fp8"


def scales(task: Task) -> tuple[str, str]:
    """What the scales of the two operands are called."""
    return f"{task.gemm.a}_scale", f"{task.gemm.b}_scale"


def why_not(task: Task) -> str:
    """Why there is no such task of this one; empty if there is."""
    if set(task.parts) != {""}:
        return f"{task.name} is a program of several products"
    if task.fp8:
        return f"{task.name} has inputs for the scales of fp8 operands; ask for it with fp8 as the storage dtype"
    gemm = task.gemm
    if gemm.a_transposed or not gemm.b_transposed:
        return f"fp8 operands are contiguous along {task.k}, and those of {task.name}, {gemm}, are not both"
    for name in (gemm.a, gemm.b):
        if task.tensors[name].dtype:
            return f"{name} of {task.name} is {task.tensors[name].dtype} whatever the storage dtype"
    taken = [name for name in scales(task) if name in task.everything]
    return f"{task.name} has a tensor called {taken[0]}, the name of a scale" if taken else ""


def scaled(task: Task) -> Task:
    """The task with fp8 operands. Raises TaskError, in one sentence, where there is none."""
    name = task.name + SUFFIX
    if why := why_not(task):
        raise _none(task, why)
    file, text = _file(task.path, name), _text(task)
    module = ModuleType(f"_codasmith{SUFFIX}_{name}")
    module.__file__ = str(task.path)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # where its source is looked for
    sys.modules[module.__name__] = module
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return replace(vars(module)[task.reference.__name__ + SUFFIX], path=task.path)


def text_of(task: Task) -> str:
    """The file that defines the task, made here or written by somebody. Raises OSError where it cannot be read."""
    file = _file(task.path, task.name)
    made = task.reference.__code__.co_filename == file
    return "".join(linecache.getlines(file)) if made else Path(task.path or "").read_text()


def scaled_epilogue(source: str, task: Task) -> str:
    """A closed epilogue of the task, written for the task with fp8 operands."""
    tree = syntax_tree(source)
    (function,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list)
    product = function.args.args[0].arg
    function.name += SUFFIX
    function.args.args[1:1] = [ast.arg(name) for name in scales(task)]
    _after_docstring(function, f"{product} = {product} * {' * '.join(scales(task))}")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _text(task: Task) -> str:
    """The file of the task with fp8 operands, from the task's own: its imports, its constants and its helpers."""
    tree, name = syntax_tree(text_of(task)), task.reference.__name__
    own = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if own is None:
        raise _none(task, "its reference is no function that stands at the top of its file")
    parts = []
    for node in tree.body:
        if node is own:
            parts.append(_declaration(task, own.decorator_list) + _reference(task, own))
        elif not isinstance(node, ast.FunctionDef) or not any(map(_is_task, node.decorator_list)):
            parts.append(ast.unparse(ast.Module([node], [])))  # so that a docstring looks like one
    return "\n\n".join(parts) + "\n"


def _declaration(task: Task, decorators: list[ast.expr]) -> str:
    """The decorator, a line an argument, with the scales after the operands."""
    call = next((d for d in decorators if isinstance(d, ast.Call) and _is_task(d)), None)
    if call is None or any(k.arg is None for k in call.keywords):
        raise _none(task, "its declaration is not written out as @task(name=value, ...) on its reference")
    taken_by = dict(zip((task.gemm.a, task.gemm.b), scales(task), strict=True))
    values: dict[str | None, str] = {}
    for keyword in call.keywords:
        values[keyword.arg] = ast.unparse(keyword.value)
        if keyword.arg in taken_by:
            tensor = task.tensors[keyword.arg]
            layout = f"layout={tensor.layout!r}, " * bool(tensor.layout)
            values[taken_by[keyword.arg]] = f"Tensor({str(tensor.dimensions[0])!r}, 'f32', {layout}low=0.5, high=1.5)"
    if "name" in values:
        values["name"] = repr(task.name + SUFFIX)
    values["fp8"] = repr(taken_by)
    arguments = "".join(f"    {name}={value},\n" for name, value in values.items())
    return f"@{ast.unparse(call.func)}(\n{arguments})\n"


def _reference(task: Task, node: ast.FunctionDef) -> str:
    """The reference with the product scaled. Raises TaskError where it does not say the product as the task does."""
    (a, b), found = scales(task), []

    class Scale(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if ast.unparse(node) != str(task.gemm):
                return node
            found.append(node)
            return ast.parse(f"({task.gemm}) * {a}[:, None] * {b}", mode="eval").body

    body = Scale().visit(node)
    if len(found) != 1:
        raise _none(task, f"the reference of {task.name} says {task.gemm} {len(found)} times; write it once")
    names = [argument.arg for argument in body.args.args]
    if not {task.gemm.a, task.gemm.b} <= {*names}:
        raise _none(task, f"{task.gemm.a} and {task.gemm.b} are not among the plain parameters of its reference")
    after = max(names.index(task.gemm.a), names.index(task.gemm.b)) + 1
    body.args.args[after:after] = [ast.arg(a), ast.arg(b)]
    body.name, body.decorator_list = node.name + SUFFIX, []
    said = f"{task.doc} Here {task.gemm} is that of fp8 operands, times {a} and {b}, a scale for each of their rows."
    body.body[: int(ast.get_docstring(body) is not None)] = [ast.Expr(ast.Constant(said))]
    return ast.unparse(ast.fix_missing_locations(body))


def _after_docstring(function: ast.FunctionDef, statement: str) -> None:
    start = int(ast.get_docstring(function) is not None)
    function.body[start:start] = ast.parse(statement).body


def _none(task: Task, why: str) -> TaskError:
    return TaskError(f"there is no task {task.name + SUFFIX!r}: {why}")


def _is_task(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "task"


def _file(path: Path | None, name: str) -> str:
    return f"<{path}:{name}>"
