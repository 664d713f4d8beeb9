"""`codasmith tasks` and `codasmith kernels`: what there is to solve, and what is solved."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .commands_run import JsonOption, TaskArgument
from .errors import USER_MISTAKE
from .speak import Voice, speaking

if TYPE_CHECKING:
    from ..tasks import Task
    from ..verified_kernels import Added

tasks = typer.Typer(help="The catalogue of fusion tasks.", no_args_is_help=True)
kernels = typer.Typer(help="Kernels that passed the gate on a real GPU.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(tasks, name="tasks")
    app.add_typer(kernels, name="kernels")


@tasks.command("list")
def list_tasks(as_json: JsonOption = False) -> None:
    """The catalogue's tasks by level."""
    with speaking(as_json) as voice:
        from ..tasks import shipped

        found = sorted(shipped().values(), key=lambda t: (t.level, t.name))
        rows = [{"task": t.name, "level": t.level, "gemm": _products(t), "about": _first_line(t.doc)} for t in found]
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
            "gemm": _products(found),
            "stages": _stages(found),
            "between": {n: str(t) for n, t in found.everything.items() if n not in {**found.tensors, **found.outputs}},
            "inputs": {name: str(t) for name, t in found.tensors.items()},
            "outputs": {name: str(t) for name, t in found.outputs.items()},
            "domain": _domain(found),
            "storages": found.storages,
            "fp8": found.fp8,
            "with_fp8_operands": _with_fp8_operands(found),
            "workloads": [w.label for w in found.workloads(found.usual_storage)],
            "reference": found.source,
        }
        voice.answer(document, lambda console: _show_task(console, found, document))


def _domain(task: Task) -> dict[str, int]:
    """By symbol, of what a legal size is a multiple; every size is at least that."""
    from ..tasks.domain import symbol_step

    storage, parts = task.usual_storage, task.parts.values()
    return {s: math.lcm(*(symbol_step(part, s, storage) for part in parts)) for s in task.symbols}


def _with_fp8_operands(task: Task) -> str:
    """What the task is called then; empty where it takes them itself, or none can be made of it."""
    from ..tasks import TaskError, scaled

    try:
        return scaled(task).name
    except TaskError:
        return ""


def _products(task: Task) -> str:
    return ", ".join(str(part.gemm) for part in task.parts.values())


def _stages(task: Task) -> list[str]:
    """A program's stages in order, as its author wrote them."""
    from ..tasks import ProgramTask

    return [str(step) for step in task.steps] if isinstance(task, ProgramTask) else []


def _show_task(console: Console, task: Task, document: dict[str, Any]) -> None:
    from rich.syntax import Syntax

    console.print(f"[bold]{escape(task.name)}[/], level {task.level}, {document['path']}", soft_wrap=True)
    console.print(escape(task.doc), soft_wrap=True)
    console.print()
    for stage, part in task.parts.items():
        console.print(f"product  {f'{stage}: ' * bool(stage)}{part.gemm}: {part.m} x {part.n}, summed over {part.k}")
    for line in document["stages"]:
        console.print(f"stage    {escape(line)}", soft_wrap=True)
    for kind in ("inputs", "between", "outputs"):
        for name, tensor in document[kind].items():
            console.print(f"{kind.removesuffix('s'):<8} {name}: {escape(tensor)}", soft_wrap=True)
    sizes = ("any" if step == 1 else f"a multiple of {step}" for step in document["domain"].values())
    console.print(f"domain   {'; '.join(f'{s} {words}' for s, words in zip(document['domain'], sizes, strict=True))}")
    scales = [f"the scale of {operand} in {name}" for operand, name in task.fp8.items()]
    fp8 = f" ({', '.join([*scales, 'all else of the storage dtype in bf16'])})"
    elsewhere = document["with_fp8_operands"]
    more = fp8 if scales else f"; with fp8 operands: {elsewhere}" if elsewhere else ""
    console.print(f"stored   in {', '.join(task.storages)}{more}", soft_wrap=True)
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
    """The admitted kernels, those shipped and your own, the closed tier first, then by tax."""
    with speaking(as_json) as voice:
        from .. import verified_kernels

        listings, problems = verified_kernels.list_entries(task), verified_kernels.problems(task)
        for problem in problems:
            voice.progress.say(problem, "yellow")
        rows = [listing.model_dump(mode="json") for listing in listings]
        document = {"command": "kernels list", "exit_code": 0, "kernels": rows, "problems": problems}
        voice.answer(document, lambda console: console.print(verified_kernels.render_list(listings)))


@kernels.command("show")
def show_kernel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A task's name, or TASK/DIGEST for one of its kernels.")],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write the tax over shapes to a .svg or .png.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """One admitted kernel: its source, its record, and its tax over the shapes that were timed."""
    with speaking(as_json) as voice:
        from .. import verified_kernels

        found = verified_kernels.describe(name)
        if plot is not None:
            verified_kernels.save_plot(found.record, found.listing.name, plot)
            voice.progress.say(f"plotted to {plot}")
        document = {"command": "kernels show", "exit_code": 0, **found.model_dump(mode="json")}
        voice.answer(document, lambda console: console.print(verified_kernels.render(found)))


@kernels.command("add")
def add_kernels(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="A store, a home with one in `kernels`, or entries of one.")
    ],
    to: Annotated[Path | None, typer.Option(metavar="STORE", help="Where they are kept; by default your own.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring in kernels that another machine admitted: bytes are checked, the newest evidence of each dtype stays."""
    with speaking(as_json) as voice:
        from .. import verified_kernels

        rows = verified_kernels.add(folders, to)
        refused = [row for row in rows if row.outcome == "refused"]
        code = USER_MISTAKE if refused else 0
        document = {"command": "kernels add", "exit_code": code, "kernels": [row.model_dump() for row in rows]}
        for row in refused:
            voice.progress.say(f"refused: {row.note}", "yellow")
        voice.answer(document, lambda console: _show_added(console, rows))
        if refused:
            raise typer.Exit(code)


def _show_added(console: Console, rows: list[Added]) -> None:
    for row in rows:
        if row.outcome != "refused":
            what = f"added {row.name}: {', '.join(row.storages)}" if row.outcome == "added" else f"kept {row.note}"
            console.print(escape(what), soft_wrap=True)
    count = {outcome: sum(row.outcome == outcome for row in rows) for outcome in ("added", "there", "refused")}
    console.print(f"{count['added']} added, {count['there']} there already, {count['refused']} refused")


@kernels.command("export")
def export_kernel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A task's name, or TASK/DIGEST for one of its kernels.")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the package's folder is made.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """A package of its own, as Hugging Face's `kernels` loads them: runs without Codasmith."""
    with speaking(as_json) as voice:
        from .. import verified_kernels

        folder = verified_kernels.export(name, to)
        document = {"command": "kernels export", "exit_code": 0, "folder": str(folder)}
        voice.answer(document, lambda console: console.print(f"exported to {escape(str(folder))}", soft_wrap=True))


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
