"""`codasmith tasks` and `codasmith kernels`: what there is to solve, and what is solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .commands_run import JsonOption, TaskArgument
from .speak import Voice, speaking

if TYPE_CHECKING:
    from ..tasks import Task
    from ..verified_kernels.store import Entry

tasks = typer.Typer(help="The catalogue of fusion tasks.", no_args_is_help=True)
kernels = typer.Typer(help="Kernels that passed the gate on a real GPU.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(tasks, name="tasks")
    app.add_typer(kernels, name="kernels")


@tasks.command("list")
def list_tasks(as_json: JsonOption = False) -> None:
    """The catalogue's tasks by level."""
    with speaking(as_json) as voice:
        from ..tasks import catalogue

        found = sorted(catalogue().values(), key=lambda t: (t.level, t.name))
        rows = [{"task": t.name, "level": t.level, "gemm": str(t.gemm), "about": _first_line(t.doc)} for t in found]
        _answer_rows(voice, "tasks list", "tasks", rows)


@tasks.command("show")
def show_task(task: TaskArgument, as_json: JsonOption = False) -> None:
    """One task: its tensors, its outputs, its reference, and the shapes that are timed."""
    with speaking(as_json) as voice:
        from ..tasks import load_task

        found = load_task(task)
        document = {
            "command": "tasks show",
            "exit_code": 0,
            "task": found.name,
            "level": found.level,
            "digest": found.digest,
            "path": str(found.path),
            "about": found.doc,
            "gemm": str(found.gemm),
            "inputs": {name: str(t) for name, t in found.tensors.items()},
            "outputs": {name: str(t) for name, t in found.outputs.items()},
            "workloads": [w.label for w in found.workloads()],
            "reference": found.source,
        }
        voice.answer(document, lambda console: _show_task(console, found, document))


def _show_task(console: Console, task: Task, document: dict[str, Any]) -> None:
    from rich.syntax import Syntax

    console.print(f"[bold]{escape(task.name)}[/], level {task.level}, {document['path']}", soft_wrap=True)
    console.print(escape(task.doc), soft_wrap=True)
    console.print(f"\nproduct  {document['gemm']}: {task.m} x {task.n}, summed over {task.k}")
    for kind in ("inputs", "outputs"):
        for name, tensor in document[kind].items():
            console.print(f"{kind[:-1]:<8} {name}: {escape(tensor)}", soft_wrap=True)
    console.print(f"timed    {'; '.join(document['workloads'])}\n", soft_wrap=True)
    if console.is_terminal:
        console.print(Syntax(task.source, "python", background_color="default"))
    else:
        console.print(escape(task.source), soft_wrap=True)


@kernels.command("list")
def list_kernels(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Only this task's kernels.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The admitted kernels, those shipped and your own, the fastest of each task first."""
    with speaking(as_json) as voice:
        from ..verified_kernels.store import scan

        entries, problems = scan(task)
        for problem in problems:
            voice.progress.say(problem, "yellow")
        _answer_rows(voice, "kernels list", "kernels", [_kernel_row(e) for e in entries], problems=problems)


@kernels.command("show")
def show_kernel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A task's name, or TASK/DIGEST for one of its kernels.")],
    as_json: JsonOption = False,
) -> None:
    """One admitted kernel: its source and its record."""
    with speaking(as_json) as voice:
        from ..verified_kernels.load import find

        entry = find(name)
        record = entry.record.model_dump(mode="json")
        document = {
            "command": "kernels show",
            "exit_code": 0,
            **_kernel_row(entry),
            "source": entry.source,
            "record": record,
        }
        voice.answer(document, lambda console: _show_kernel(console, entry))


def _kernel_row(entry: Entry) -> dict[str, Any]:
    record = entry.record
    return {
        "kernel": entry.name,
        "tax": record.tax,
        "tier": record.tier,
        "author": record.author.name,
        "storage": ", ".join(record.storages),
        "gpu": ", ".join(sorted({e.environment.get("gpu", "unknown") for e in record.evidence})),
        "where": "shipped" if entry.shipped else str(entry.path),
    }


def _show_kernel(console: Console, entry: Entry) -> None:
    record = entry.record
    for name, value in _kernel_row(entry).items():
        console.print(f"{name:<8} {escape(_cell(value))}", soft_wrap=True)
    console.print(f"domain   {escape(record.domain)}", soft_wrap=True)
    console.print(f"numerics {escape(record.numerics.bound)}", soft_wrap=True)
    for evidence in record.evidence:
        table = Table(
            "workload", "schedule", "milliseconds", "tax", "over eager", "over compile", box=None, pad_edge=False
        )
        for seen in evidence.workloads:
            for t in seen.timings:
                cells = (t.milliseconds, t.tax, t.over_eager, t.over_compile)
                table.add_row(seen.workload.label, t.schedule, *("" if c is None else escape(str(c)) for c in cells))
        if table.row_count:
            console.print(f"\nmeasured {escape(evidence.date)}, {evidence.storage}", soft_wrap=True)
            console.print(table)
    console.print()
    console.print(escape(entry.source), soft_wrap=True)


def _answer_rows(voice: Voice, command: str, noun: str, rows: list[dict[str, Any]], **more: Any) -> None:
    document = {"command": command, "exit_code": 0, noun: rows, **more}
    voice.answer(document, lambda console: _show_rows(console, noun, rows))


def _show_rows(console: Console, noun: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        console.print(f"no {noun}")
        return
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row.values()))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]
