"""A run with everything it needs: task, model, journal, the gate, and the registry where there is a GPU."""

from __future__ import annotations

import itertools
import os
import re
import threading
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import loop
from .budget import Budget
from .errors import MachineCannot, UserMistake
from .history import History
from .journal import Event, Journal, read
from .loop import Admit, Gate, Result
from .models import Model, ModelError, make_model
from .progress import Progress
from .stops import Stops
from .strategies import make_strategy

if TYPE_CHECKING:
    from ..gate.verdict import Tier
    from ..tasks import Task


def run(
    task: Task | str | os.PathLike,
    model: Model | str = "builtin:tracer",
    *,
    budget: Budget | None = None,
    tier: Tier = "closed",
    storage: str | None = None,
    target_tax: float | None = None,
    target_speedup: float | None = None,
    strategy: str = "refine",
    width: int | None = None,
    patience: int | None = None,
    journal: str | os.PathLike | None = None,
    cpu_only: bool = False,
    counters: bool = False,
    model_options: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run the agent on a task until a kernel is admitted or the budget is spent.

    task: a Task, a name of the catalogue, or a path "my_task.py" or "my_tasks.py:one_of_them".
    model: a model or its name, such as "anthropic:NAME"; see codasmith.agent.models.
    storage: "bf16" or "fp16", the dtype of the tensors whose dtype the task leaves open; "fp8", for tasks that say
        where scales go, that of the product's operands. By default the task's usual one: fp8 for NAME_fp8, else bf16.
    target_tax, target_speedup, patience: see `stops.Stops`. strategy, width: see `strategies`.
    journal: where the events go; a new file under runs/ by default.
    cpu_only: stop after the stages that need no GPU, and admit nothing.
    counters: let feedback on a kernel that passed tell a few counters of Nsight Compute; see `counters`.

    Raises UserMistake, TaskError, ModelError or MachineCannot, each in one sentence.
    """
    asked_for = task
    model = make_model(model, **(model_options or {})) if isinstance(model, str) else model
    budget = budget or Budget()
    chosen = make_strategy(strategy, width)
    stops = Stops(target_tax, target_speedup, patience)
    from ..tasks import load_task  # imports torch, so not before a mistake that needs none to be seen

    task = load_task(task) if isinstance(task, str | os.PathLike) else task
    storage = task.check_storage(storage)
    _check_tier(task, model, tier)
    path = Path(journal) if journal is not None else _new_path(task.name, model.name)
    gate, admit = gate_and_admit(storage, cpu_only)
    gate = _counted(gate, progress) if counters else gate
    with Journal(path) as book:
        if book.events or book.problems:
            raise UserMistake(
                f"the journal {path} has a run in it; go on with: codasmith resume {path}, or choose another name"
            )
        book.write(
            "start",
            format=FORMAT,
            task=task.name,
            task_digest=task.digest,
            task_path=_where(task, asked_for),
            model=model.name,
            model_options=model_options or {},
            tier=tier,
            storage=storage,
            strategy=strategy,
            width=width,
            target_tax=stops.tax,
            target_speedup=stops.speedup,
            patience=stops.patience,
            cpu_only=cpu_only,
            counters=counters,
            budget=asdict(budget),
        )
        return _run(
            task,
            model,
            budget=budget,
            gate=gate,
            journal=book,
            admit=admit,
            tier=tier,
            target_tax=stops.tax,
            target_speedup=stops.speedup,
            patience=stops.patience,
            strategy=chosen,
            progress=progress,
        )


def resume(
    journal: str | os.PathLike,
    *,
    cpu_only: bool | None = None,
    model: Model | None = None,
    patience: int | None = None,
    model_options: dict[str, Any] | None = None,
    progress: Progress | None = None,
    **budget: float | None,
) -> Result:
    """Go on with a run from its journal, without asking the model again for what it has answered.

    budget: attempts, tokens, dollars, minutes, gpu_seconds: new bounds for the whole run, in the place of those
        that it last had. cpu_only, patience, model_options (such as timeout): the same.
    model: another model than the recorded one.
    """
    path = Path(journal)
    start_of(History(read(path)[0]), path)  # before it is opened for writing: it may be no journal at all
    with Journal(path) as book:
        history = History(book.events)
        start = start_of(history, path)
        task = task_of(start, path)
        last = start | _last_asked(history)
        options = last["model_options"] | (model_options or {})
        if model is None:
            model = make_model(start["model"], **options)
        bounds = Budget(**last["budget"]).with_changes(**budget)
        waits = patience if patience is not None else last.get("patience")
        stops = Stops(start["target_tax"], start.get("target_speedup"), waits)
        on_cpu = last["cpu_only"] if cpu_only is None else cpu_only
        gate, admit = gate_and_admit(start["storage"], on_cpu)
        gate = _counted(gate, progress) if start.get("counters") is True else gate
        if cpu_only is False and admit is None:
            raise MachineCannot(
                "--gpu asks for the stages that need a Hopper GPU, and there is none here; "
                "resume on a machine that has one, or leave --gpu out"
            )
        progress = progress or Progress.silent()
        for problem in book.problems:
            progress.say(problem, "yellow")
        ended = history.stop
        changed = {"budget": asdict(bounds), "patience": stops.patience, "cpu_only": on_cpu, "model_options": options}
        book.write("resumed", **changed)
        result = _run(
            task,
            model,
            budget=bounds,
            gate=gate,
            journal=book,
            admit=admit,
            tier=start["tier"],
            target_tax=stops.tax,
            target_speedup=stops.speedup,
            patience=stops.patience,
            strategy=make_strategy(start.get("strategy", "refine"), start.get("width")),
            progress=progress,
        )
        if ended is not None and [e["event"] for e in book.events[-2:]] == ["resumed", "stop"]:
            progress.say(f"the run had ended ({result.ended}); nothing was asked or judged anew")
        return result


def _last_asked(history: History) -> Event:
    """What an earlier `resume` asked for, as far as it is whole; it holds until another one changes it."""
    resumed = history.resumed or {}
    budget, options = resumed.get("budget"), resumed.get("model_options")
    whole = {
        "budget": budget is not None and _is_budget(budget),
        "patience": "patience" in resumed and isinstance(resumed["patience"], int | None),
        "cpu_only": isinstance(resumed.get("cpu_only"), bool),
        "model_options": isinstance(options, dict),
    }
    return {name: resumed[name] for name, taken in whole.items() if taken}


def _run(task: Task, model: Model, **parts: Any) -> Result:
    """The loop. A model that does not answer at all: how to go on, or, of a built-in one, who may have an answer."""
    try:
        return loop.run(task, model, **parts)
    except ModelError as error:
        if model.name.startswith("builtin:"):
            error.message += "; or ask another model, such as --model anthropic:NAME or --model command:PROGRAM"
        else:
            error.message += f"; when that is mended: codasmith resume {parts['journal'].path}"
        raise


FORMAT = 1
"""Of the journal's events; raised when an older reader would misread them."""


def start_of(history: History, path: Path) -> Event:
    """How a run was begun. Raises UserMistake where the journal does not say."""
    start = history.start or {}
    written = start.get("format", FORMAT)  # older journals do not say
    if isinstance(written, int) and written > FORMAT:
        raise UserMistake(
            f"{path} was written by a newer Codasmith (format {written}; this one reads up to {FORMAT}): update it"
        )
    words = ("task", "task_path", "task_digest", "model", "tier", "storage")
    whole = all(isinstance(start.get(k), str) for k in words) and {"cpu_only", "target_tax"} <= start.keys()
    whole = whole and isinstance(start.get("strategy", "refine"), str)  # older journals say no strategy
    whole = whole and all(isinstance(start.get(k), int | None) for k in ("width", "patience"))
    whole = whole and all(is_number_or_none(start.get(k)) for k in ("target_tax", "target_speedup"))
    whole = whole and start["tier"] in ("closed", "cutedsl") and start["storage"] in ("bf16", "fp16", "fp8")
    if not whole or not isinstance(start.get("model_options"), dict) or not _is_budget(start.get("budget")):
        raise UserMistake(
            f'{path} does not say how its run was begun (no whole "start" event); '
            "give a journal that `codasmith run` wrote"
        )
    return start


def task_of(start: Event, path: Path) -> Task:
    """The task of a run. Raises UserMistake where it is no longer the same."""
    from ..tasks import load_task

    task = load_task(start["task_path"])
    if task.digest != start["task_digest"]:
        raise UserMistake(
            f"the task {task.name!r} has changed since {path} was begun, so its answers no longer count; "
            "begin a new run"
        )
    return task


def _is_budget(value: object) -> bool:
    known = asdict(Budget()).keys()  # older journals know fewer bounds
    return isinstance(value, dict) and value.keys() <= known and all(map(is_number_or_none, value.values()))


def is_number_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def gate_and_admit(storage: str, cpu_only: bool) -> tuple[Gate, Admit | None]:
    """The real gate, compute-sanitizer last, and the registry where this machine has a GPU to admit with."""
    from .. import gate

    def evaluate(task: Task, source: str, *, tier: Tier, progress: Any) -> Any:
        found = gate.evaluate(task, source, tier=tier, storage=storage, cpu_only=cpu_only, progress=progress)
        return gate.sanitize([found], progress=progress)[0] if found.verdict.status == "passed" else found

    if cpu_only or not gate.has_gpu():
        return evaluate, None

    from ..verified_kernels import admit

    def keep(evaluation: Any, task: Task, author: dict[str, str]) -> dict[str, Any]:
        entry = admit(evaluation, task, author=author)
        return {"name": entry.name, "digest": entry.record.digest, "path": str(entry.path)}

    return evaluate, keep


def _counted(gate: Gate, progress: Progress | None) -> Gate:
    from .counters import counted

    said = progress or Progress.silent()
    return counted(gate, lambda line: said.say(line, "yellow"))


def _check_tier(task: Task, model: Model, tier: Tier) -> None:
    from ..tasks import ProgramTask

    if tier == "closed":
        return
    if isinstance(task, ProgramTask):
        raise UserMistake(
            f"{task.name} is a program, and its epilogues are taken in the closed tier only; leave --tier {tier} out"
        )
    if model.name.startswith("builtin:"):
        raise UserMistake(
            f"{model.name} writes the language of the closed tier only; leave --tier {tier} out, or ask another model"
        )


def _where(task: Task, asked_for: object) -> str:
    """What finds the task again, on another machine too: its name if the project has it, or its file with its name."""
    from ..tasks import shipped_task

    if isinstance(asked_for, str) and shipped_task(asked_for) is task:
        return asked_for
    if task.path is None:
        return task.name
    return f"{Path(task.path).resolve()}:{task.name}"


def _new_path(task: str, model: str) -> Path:
    words = [re.sub(r"[^A-Za-z0-9_.-]+", "-", word).strip("-")[:60] for word in (task, model)]
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    stem = f"{stamp}-{words[0]}-{words[1]}-{threading.get_native_id()}"  # of a process's first thread, its own id
    names = itertools.chain([stem], (f"{stem}-{i}" for i in itertools.count(2)))
    paths = (Path("runs") / f"{name}.jsonl" for name in names)
    return next(path for path in paths if not path.exists())
