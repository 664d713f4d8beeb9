"""The conversation: a fixed system part, the task, and what became of earlier attempts.

The system part is the same for every question of a run, so that providers can cache it.  Text that others
wrote (a task's docstring and source, a compiler's message) stands inside a fence longer than any run of
backticks in it, which it therefore cannot close.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..primitives.types import DOUBLE, WIDTHS, Operand
from .rendering import fence, one_line, packaged, render

if TYPE_CHECKING:
    from ..tasks import ProgramTask, Task

EXAMPLES = ("leaky_columns", "tanh_gate", "tanh_value_bwd")
"""Folders of worked examples: one for single columns, one for pairs, one for outputs twice as wide as the product."""

KINDS = {
    "row": "row vector, one number a column",
    "col": "column vector, one number a row",
    "tile": "tile, one number an element",
    "scalar": "one number",
    "index": "column numbers, one a row: to select or to compare with column_index",
}


def system_text(task: Task, tier: str = "closed", *, asked: bool = True) -> str:
    """Rules, vocabulary and one worked example, which is never the task at hand.

    asked: whether the reader is to answer with a code block; False leaves out how.
    """
    from ..primitives import render_reference

    name = example_for(task)
    return render(
        f"system_{tier}.j2",
        asked=asked,
        reference=render_reference(max(task.level, _example_task(name).level)) if tier == "closed" else "",
        example_task=task_text(_example_task(name), tier),
        example_answer=packaged(f"prompts/examples/{name}/{tier}.py").strip(),
    )


def task_text(task: Task, tier: str = "closed") -> str:
    """The task as the model sees it."""
    from ..tasks import ProgramTask

    if isinstance(task, ProgramTask):
        return _program_text(task, tier)
    return render(
        "task.j2",
        name=one_line(task.name),
        doc=fence(task.doc, "text") if task.doc else "",
        source=fence(task.source, "python"),
        helpers=_helpers(task),
        gemm=str(task.gemm),
        m=str(task.m),
        n=str(task.n),
        k=str(task.k),
        parameters=[_parameter(task, o) for o in task.operands.values()],
        outputs=[_output(task, name) for name in task.outputs],
        notes=_layout_notes(task, tier),
        fp8=" and ".join(f"`{name}`" for name in dict.fromkeys(task.fp8.values())),
        tier=tier,
    )


def _program_text(task: ProgramTask, tier: str) -> str:
    """A program: its stages in order, and of each product what its epilogue takes and returns."""
    from ..templates.program import words

    products = [
        {
            "name": name,
            "gemm": str(part.gemm),
            "m": str(part.m),
            "n": str(part.n),
            "k": str(part.k),
            "parameters": [_parameter(part, o) for o in part.operands.values()],
            "outputs": [_output(part, output) for output in part.outputs],
            "notes": _layout_notes(part, tier),
        }
        for name, part in task.parts.items()
    ]
    return render(
        "program.j2",
        name=one_line(task.name),
        doc=fence(task.doc, "text") if task.doc else "",
        source=fence(task.source, "python"),
        helpers=_helpers(task),
        steps=[str(step) for step in task.steps],
        formulas=[words(f) for f in dict.fromkeys(step.formula for step in task.steps) if f],
        products=products,
        between=[f"`{n}` {_shape(t)}, {t.dtype or 'storage dtype'}" for n, t in task.between.items()],
        outputs=[f"`{n}` {_shape(t)}, {t.dtype or 'storage dtype'}" for n, t in task.outputs.items()],
    )


def example_for(task: Task) -> str:
    """Of the worked examples, the most similar to the task; another where that one says too much of it."""
    ranked = sorted(EXAMPLES, key=lambda name: -_likeness(_example_task(name), task))
    return next((name for name in ranked if not _same_idea(_example_task(name), task)), ranked[-1])


def _likeness(example: Task, task: Task) -> float:
    """How much two tasks have in common: how columns lie counts most, then the kinds of operands and outputs."""
    (mode, kinds), (other, others) = _traits(example), _traits(task)
    return (mode == other) + len(kinds & others) / (1 + len(kinds | others))


def _traits(task: Task) -> tuple[str, set[str]]:
    """How columns lie, and the kinds of operands and outputs; of a program, in all its products."""
    parts = task.parts.values()
    operands = [o for part in parts for o in part.operands.values()]
    outputs = [Operand(name=n, **part.grid(n, tensor)) for part in parts for n, tensor in part.outputs.items()]
    wide = any(o.cols == DOUBLE for o in [*operands, *outputs])
    kinds = {o.kind for o in operands} | {f"returned {o.kind}" for o in outputs}
    return "double" if wide else "pairs" if task.paired else "single", kinds


def _same_idea(example: Task, task: Task) -> bool:
    """Whether a task is the example or its backward twin: by name, or because it calls the same functions."""
    if _stem(example.name) == _stem(task.name):
        return True
    return _calls(example.source) == _calls(task.source) and len(example.outputs) == len(task.outputs)


def _stem(name: str) -> str:
    return re.sub(r"_(bwd|backward|grad|fwd|forward)\b|\W", "", name.lower())


def _calls(source: str) -> set[str]:
    body = source.split("def ", 1)[-1].split("\n", 1)[-1]
    return set(re.findall(r"(\w+)\(", body))


@cache
def _example_task(name: str) -> Task:
    from ..tasks import load_task

    with resources.as_file(resources.files(__package__) / "prompts" / "examples" / name / "task.py") as path:
        return load_task(Path(path))


def _helpers(task: Task) -> str:
    """The functions and constants of the task's file that its reference uses, as a fenced block; "" without any."""
    from ..tasks.source import meaning

    parts = re.split(r"(?m)^(\w+):\n", meaning(task.reference))[1:]
    others = {n: text.strip() for n, text in zip(parts[::2], parts[1::2], strict=True) if n != task.reference.__name__}
    shown = [text if text.startswith("def ") else f"{n} = {text}" for n, text in others.items()]
    return fence("\n\n".join(shown), "python") if shown else ""


def _parameter(task: Task, operand: Operand) -> dict[str, str]:
    tensor = task.tensors[operand.name]
    return {
        "name": operand.name,
        "shape": _shape(tensor),
        "kind": _kind(operand),
        "dtype": tensor.dtype or "storage dtype",
    }


def _output(task: Task, name: str) -> dict[str, str]:
    tensor = task.outputs[name]
    kind = _kind(Operand(name=name, **task.grid(name, tensor)))
    if name in task.accumulates:
        kind += "; the kernel adds in place, and the reference shows the sum: return only what is to be added"
    return {"name": one_line(name), "shape": _shape(tensor), "kind": kind, "dtype": tensor.dtype or "storage dtype"}


def _shape(tensor: Any) -> str:
    if not tensor.dimensions:
        return "(a Python float)"
    return "[" + ", ".join(str(d) for d in tensor.dimensions) + "]"


def _kind(operand: Operand) -> str:
    kind = KINDS[operand.kind]
    if operand.kind in ("row", "tile"):
        kind += f", {WIDTHS[operand.cols]} columns"
    return kind


def _layout_notes(task: Task, tier: str) -> list[str]:
    notes = []
    layout = task.tensors[task.gemm.b].layout
    if layout:
        notes.append(
            "Columns of the accumulator come in adjacent pairs: 0 and 1, 2 and 3, ... "
            + (
                "The reference's first half is the even columns, its second half the odd ones; "
                if layout == "halves"
                else ""
            )
            + (
                "`even, odd = unpack(acc)` takes them apart."
                if tier == "closed"
                else 'mode="acc_pair" and `unpack(acc)` take them apart.'
            )
        )
    halves = [one_line(name) for name in task.halves if name not in (task.gemm.a, task.gemm.b)]
    if halves:
        notes.append(
            f"{', '.join(halves)}: stored as [first half; second half], and relabelled for you: "
            "the epilogue sees and returns alternating columns."
        )
    return notes
