"""Stage 1: is this an answer to the task at all? Parses, never executes.

Closed tier: the reader makes the graph, and its outputs are held against the task's declaration.
Open tier: the module is parsed and its imports looked at.  That is a first, coarse line which catches mistakes
early; what contains a hostile module is the sandbox in which it is compiled.
"""

from __future__ import annotations

import ast
import difflib
import time

from ..primitives.graph import Graph, GraphError
from ..primitives.language import ENCODING, MAX_BYTES, UTF8, ReadError
from ..primitives.reader import read
from ..primitives.syntax import other_encoding, syntax_tree
from ..primitives.types import DOUBLE, FULL, HALF, WIDTHS, ValueType
from ..tasks.task import Task
from .known import same_as
from .verdict import Finding, StageResult, Tier

MODULES = ("cutlass", "cutlass.cute", "quack.epilogue", "quack.activation")
"""What an open candidate may import, with what lies below the last three."""
PLAIN_MODULES = ("__future__", "functools", "math", "operator", "typing")
LONGEST = 1000
"""Characters of a message."""
_NAMES = {"__import__", "eval", "exec", "compile", "open", "globals", "vars", "input", "breakpoint", "exit", "quit"}
_DUNDERS = {"__init__", "__post_init__", "__name__", "__doc__", "__all__", "__annotations__"}


def read_stage(task: Task, source: str, tier: Tier, *, name: str | None = None) -> tuple[StageResult, Graph | None]:
    """Read a candidate; the graph is None in the open tier and where the stage fails.

    name: the epilogue to read where the file holds several.
    Data of a passed stage (closed): digest of the graph, the operands it uses, and same_as, the hand-written
    epilogue that says the same, or None.
    """
    started = time.perf_counter()
    if tier == "cutedsl":
        finding = _check_module(source)
        return _result(started, finding, "parsed; it runs in the compile sandbox only", {}), None
    try:
        graph = read(source, list(task.operands.values()), name=name)
    except GraphError as error:
        return _result(started, _from_reader(task, error)), None
    finding = _check_outputs(task, graph)
    if finding:
        return _result(started, finding), None
    operands = [o.name for o in graph.used_operands]
    known = same_as(graph)
    note = f"{len(graph.nodes)} operations; " + (f"uses {', '.join(operands)}" if operands else "uses acc alone")
    if known:
        note += f"; the same expression as the hand-written {known}"
    return _result(started, None, note, {"digest": graph.digest, "operands": operands, "same_as": known}), graph


def _result(started: float, finding: Finding | None, note: str = "", data: dict | None = None) -> StageResult:
    if finding and len(finding.message) > LONGEST:  # of a name without end
        begin, end = finding.message[: LONGEST - 200], finding.message[-150:]
        finding = finding.model_copy(update={"message": f"{begin} ... {end}"})
    return StageResult(
        stage="read",
        outcome="failed" if finding else "passed",
        seconds=time.perf_counter() - started,
        finding=finding,
        note="" if finding else note,
        data={} if finding else data or {},
    )


def _from_reader(task: Task, error: GraphError) -> Finding:
    line = error.line if isinstance(error, ReadError) else None
    remedy = error.remedy
    if error.code == "import" and "math" in error.message:
        remedy = "Remove it: write numbers out (3.141592653589793), and import functions from codasmith.primitives."
    if error.code == "reduction-used" and error.message.startswith("log "):
        remedy = 'Return row_lse(x) for the logarithm of a row\'s sum of exponentials: {"lse": row_lse(x)}.'
    if error.code == "unknown-operand":
        for name in task.tensors:
            if error.message.startswith(f"The parameter {name} "):
                if name in task.accumulates:
                    remedy = f"Remove it: {name} is added to in place, so return the change of {name} only."
                elif name not in task.operands:
                    remedy = f"Remove it: acc already holds the product {task.gemm}."
    return Finding(code=error.code, message=error.message, remedy=remedy, line=line)


# --- the closed tier's outputs ---------------------------------------------------------------------


def _check_outputs(task: Task, graph: Graph) -> Finding | None:
    given, wanted = set(graph.outputs), set(task.outputs)
    for name in graph.outputs:
        if name not in wanted:
            missing = sorted(wanted - given)
            near = missing if len(missing) == 1 else difflib.get_close_matches(name, missing, n=1)
            return Finding(
                code="unknown-output",
                message=f"The returned key {name!r} is not an output of this task.",
                remedy=f"Call it {near[0]!r}." if near else f"Return these: {', '.join(task.outputs)}.",
                line=_line(graph, name),
                output=name,
            )
    for name in task.outputs:
        if name not in given:
            return Finding(
                code="missing-output",
                message=f"The output {name!r} is not returned.",
                remedy=f"Return a dict with the keys {', '.join(task.outputs)}.",
                output=name,
            )
    for name in task.outputs:
        finding = _check_type(task, name, graph.types[graph.outputs[name]], _line(graph, name))
        if finding:
            return finding
    if not graph.uses_accumulator:
        return Finding(
            code="no-accumulator",
            message="No output uses acc, so the matrix product is not part of the answer.",
            remedy="Compute the outputs from acc.",
        )
    return None


def _check_type(task: Task, name: str, value: ValueType, line: int | None) -> Finding | None:
    tensor = task.outputs[name]
    grid = task.grid(name, tensor)
    rows, cols = grid["rows"], grid["cols"]
    declared = f"[{tensor.shape}]"

    def finding(code: str, message: str, remedy: str) -> Finding:
        return Finding(code=code, message=message, remedy=remedy, line=line, output=name)

    if (value.rows, value.cols) != (rows, cols):
        return finding(
            "wrong-shape",
            f"The output {name} is {value}, and the task declares {declared}, that is "
            f"[{'M' if rows else '1'} x {WIDTHS[cols]}] on the accumulator's grid.",
            _remedy(value, rows, cols),
        )
    if value.reduced and tensor.dtype != "f32":
        return finding(
            "reduced-dtype",
            f"The output {name} is a reduction and the task declares it {tensor.dtype or 'in the storage dtype'}, but "
            "reductions are kept in float32.",
            f'This is for the task\'s author: declare {name}=Tensor("{tensor.shape}", "f32").',
        )
    return None


def _remedy(value: ValueType, rows: bool, cols: int) -> str:
    """What to write instead; the task wants one value a (row, column), a row, or a column of that width."""
    if not (rows and cols):
        wanted, other = ("row", "col") if rows else ("col", "row")
        if value.reduced == other:
            return f"Reduce the other way: {wanted}_sum instead of {other}_sum, and so on."
        if value.reduced:
            return f"Reduce a value that is {WIDTHS[cols]} columns wide."
        return f"Reduce it: {wanted}_sum(x), {wanted}_max(x) or {wanted}_absmax(x)."
    if value.reduced:
        return "Return the values themselves, not a reduction of them."
    if value.cols * 2 == cols:
        return "Join two values to alternating columns: pack(even, odd)."
    if (value.cols, cols) in ((FULL, HALF), (DOUBLE, FULL)):
        return "Take adjacent columns apart and combine them: even, odd = unpack(x)."
    return f"Return a value of {WIDTHS[cols]} columns."


def _line(graph: Graph, name: str) -> int | None:
    return graph.nodes[graph.outputs[name]].line


# --- the open tier ---------------------------------------------------------------------------------


def _check_module(source: str) -> Finding | None:
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        return Finding(
            code="too-large",
            message=f"The source is longer than {MAX_BYTES // 1024} kB.",
            remedy="Write a shorter file.",
        )
    try:
        tree = syntax_tree(source)
    except SyntaxError as error:
        return Finding(
            code="syntax",
            message=f"This is not Python: {error.msg}.",
            remedy="Answer with one file of Python code and nothing else.",
            line=error.lineno,
        )
    except (ValueError, RecursionError, MemoryError):
        return Finding(
            code="syntax",
            message="The source holds a character that no file may hold, or is nested too deeply.",
            remedy="Write plain Python.",
        )
    if encoding := other_encoding(source):
        return Finding(code="encoding", message=ENCODING.format(encoding), remedy=UTF8)
    for node in ast.walk(tree):
        finding = _check_node(node)
        if finding:
            return finding
    if "epilogue" not in _defined(tree):
        return Finding(
            code="no-epilogue",
            message="The module defines no `epilogue` at its top level.",
            remedy="Decorate a function of that name: @gemm_epilogue(...) over def epilogue(acc, ...).",
        )
    return None


def _check_node(node: ast.AST) -> Finding | None:
    line = getattr(node, "lineno", None)
    if isinstance(node, ast.Import):
        for alias in node.names:
            if not _allowed(alias.name):
                return _import(alias.name, line)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            # `from quack import epilogue` names an allowed module too.
            if node.level or not (_allowed(module) or _allowed(f"{module}.{alias.name}")):
                return _import(module, line)
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        return Finding(
            code="forbidden-name",
            message=f"{node.id} is not available to a candidate.",
            remedy="Remove it: an epilogue needs neither files, nor the interpreter, nor code built at run time.",
            line=line,
        )
    elif isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr not in _DUNDERS:
        return Finding(
            code="forbidden-name",
            message=f"The attribute {node.attr} is not available to a candidate.",
            remedy="Remove it.",
            line=line,
        )
    return None


def _allowed(module: str) -> bool:
    below = any(module.startswith(f"{m}.") for m in MODULES[1:])
    return module in MODULES or module in PLAIN_MODULES or below


def _import(module: str, line: int | None) -> Finding:
    instead = ""
    if module.split(".")[0] in ("torch", "numpy"):
        instead = " Values are traced Float32 numbers: use cute.math, and quack.activation for silu, relu and the like."
    return Finding(
        code="import",
        message=f"The import of {module} is not allowed.",
        remedy=f"Import from {', '.join((*MODULES, *PLAIN_MODULES[1:]))} only, and write helpers in your own file."
        + instead,
        line=line,
    )


def _defined(tree: ast.Module) -> set[str]:
    names = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {t.id for t in statement.targets if isinstance(t, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
    return names
