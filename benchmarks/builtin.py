"""How near the built-in models come to the hand-written kernels: `python benchmarks/builtin.py [TASK ...]`.

Each task is one campaign of `builtin:search`, whose first attempt is the answer of `builtin:tracer`; then the
hand-written kernel is judged in the same way, unless the gate was sent the very same kernel: of every task, one
process measures both.  All that may be asked for is compiled ahead while the GPU is busy, and found again under
CODASMITH_CACHE; --compile-only fills that on a machine without a GPU.  Nothing is admitted, and torch.compile is not
measured.  Several GPUs take a shard each, and --show adds up what they wrote:

    for i in 1 2 3 4; do
      CUDA_VISIBLE_DEVICES=$((i - 1)) python benchmarks/builtin.py --shard $i/4 --out builtin$i.jsonl &
    done
    wait; python benchmarks/builtin.py --show builtin?.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codasmith import gate, verified_kernels
from codasmith.agent import loop
from codasmith.agent.budget import Budget
from codasmith.agent.campaign import FORMAT
from codasmith.agent.errors import UserMistake
from codasmith.agent.extract import extract
from codasmith.agent.journal import Journal
from codasmith.agent.models import Message, ModelError
from codasmith.agent.models.search import BuiltinSearch
from codasmith.evals import lines
from codasmith.evals.jobs import part_of
from codasmith.gate.frame import frame_of
from codasmith.gate.pipe import ChildFailed
from codasmith.gate.pipeline import session
from codasmith.primitives import read
from codasmith.tasks import Task, catalogue
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

HAND_WRITTEN = Path(verified_kernels.__file__).parent / "hand_written"
AHEAD = 6
"""Candidates that are compiled in advance at the same time, each under all schedules."""
NEAR = 1.03
"""Of the hand-written kernel's tax: as good as it."""

Row = dict[str, Any]


def main() -> None:
    options = _options()
    if options.show:
        _summarise(_told(options.show))
        return
    started = time.monotonic()
    tasks = [catalogue()[name] for name in _chosen(options)]
    if options.compile_only:
        for task in tasks:
            for source in _sources(task):
                print(f"{task.name}: {_compile(task, source, options)}", flush=True)
        return
    # Tracing is not made for threads, so the sources are made here, the referee starting meanwhile.
    referee = threading.Thread(target=_start_referee)
    referee.start()
    ahead: queue.SimpleQueue[tuple[Task, str]] = queue.SimpleQueue()
    for task in tasks:
        for source in _sources(task):
            ahead.put((task, source))
    for _ in range(AHEAD):  # they end with the process, whatever they are at
        threading.Thread(target=_compile_ahead, args=(ahead, options), daemon=True).start()
    referee.join()
    rows: list[Row] = []
    for task in tasks:
        if time.monotonic() - started > options.limit_s:
            print(f"{task.name}: not started, the time is up", flush=True)
            continue
        try:
            row = _measure(task, options)
        except Exception as error:  # one task that cannot be measured must not cost the others
            print(f"{task.name}: not measured, {type(error).__name__}: {error}", flush=True)
            continue
        rows.append(row)
        print(_line(row), flush=True)
        if options.out:
            lines.append(options.out, row)
    _summarise(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="names of the catalogue; all of levels 1 to 3 by default")
    parser.add_argument("--storage", default="bf16", choices=["bf16", "fp16", "fp8"])
    parser.add_argument("--attempts", type=int, default=6, help="proposals a task")
    parser.add_argument("--workloads", type=int, default=1, help="how many of a task's shapes are timed")
    parser.add_argument("--schedules", type=int, default=4, help="how many schedules race, of the usual ones")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no further task after so many seconds")
    parser.add_argument("--shard", default="1/1", help="2/4: the second of four parts, every fourth task")
    parser.add_argument(
        "--out", type=out_file, help="JSON lines, one task a line; a task that it has already is not measured again"
    )
    parser.add_argument("--journals", type=Path, help="a folder for the campaigns' journals; else they are not kept")
    parser.add_argument("--compile-only", action="store_true", help="only fill the cache of compiled objects")
    parser.add_argument("--show", type=Path, nargs="+", help="only add up what was written to these files")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[str]:
    """The names of the tasks of this shard that are still to be measured."""
    known = catalogue()
    if unknown := next((name for name in options.tasks if name not in known), None):
        raise SystemExit(
            f"the catalogue has no task of one product called {unknown!r}; codasmith tasks list names them"
        )
    names = options.tasks or sorted((n for n in known if known[n].level <= 3), key=lambda n: (known[n].level, n))
    try:
        part, parts = part_of(options.shard)
    except UserMistake as error:
        raise SystemExit(str(error)) from None
    there = [options.out] if options.out and options.out.exists() else []
    done = {row["task"] for row in _told(there)}
    return [name for name in names[part - 1 :: parts] if name not in done]


def _told(files: list[Path]) -> list[Row]:
    """What was written to the files. Raises SystemExit for one that cannot be read."""
    try:
        return list(lines.read(files, "built-in models"))
    except UserMistake as error:
        raise SystemExit(str(error)) from None


def _start_referee() -> None:
    """What takes a process some ten seconds; where it fails, the first judgement says why."""
    if gate.has_gpu():
        with contextlib.suppress(ChildFailed):
            _ = session().referee


def _summarise(rows: list[Row]) -> None:
    for level in sorted({r["level"] for r in rows}):
        print(_summary(f"level {level}", [r for r in rows if r["level"] == level]))
    print(_summary("all", rows))


def _measure(task: Task, options: argparse.Namespace) -> Row:
    began = time.monotonic()
    judge, name = _gate(options), f"{time.strftime('%Y%m%d-%H%M%S')}-{task.name}.jsonl"
    row: Row = {"task": task.name, "level": task.level, "storage": options.storage}
    with tempfile.TemporaryDirectory() as scratch, Journal((options.journals or Path(scratch)) / name) as journal:
        journal.write("start", **_start(task, options))
        try:
            result = loop.run(
                task, BuiltinSearch(), budget=Budget(attempts=options.attempts), gate=judge, journal=journal
            )
        except ModelError as error:  # the tracer says what it cannot translate
            return row | {"tracer": "refused", "search": "refused", "why": str(error)}
    first, best = result.attempts[0], result.best
    assert first.verdict is not None and best is not None and best.verdict is not None
    row |= {"tracer": first.verdict.status, "tracer_tax": first.verdict.tax, "attempts": len(result.attempts)}
    row |= {"search": best.verdict.status, "search_tax": best.verdict.tax, "best": best.number, "source": best.source}
    row |= {"ended": result.ended, "taxes": [a.verdict.tax if a.verdict else None for a in result.attempts]}
    row["findings"] = [str(a.verdict.finding) for a in result.attempts if a.verdict and a.verdict.finding]
    hand = _hand_written(task)
    if hand:
        same = next((a for a in result.attempts if a.source and _kernel(task, a.source) == _kernel(task, hand)), None)
        verdict = same.verdict if same else judge(task, hand).verdict
        row |= {"hand": verdict.status, "hand_tax": verdict.tax, "same_as": same.number if same else None}
    row["environment"] = first.verdict.environment
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


def _start(task: Task, options: argparse.Namespace) -> Row:
    """How a campaign was begun, so that `codasmith journal show` and `html` can tell of it."""
    return {
        **{"format": FORMAT, "task": task.name, "task_digest": task.digest, "task_path": task.name, "tier": "closed"},
        **{"model": BuiltinSearch.name, "model_options": {}, "storage": options.storage, "strategy": "refine"},
        **{"width": None, "target_tax": None, "target_speedup": None, "patience": BuiltinSearch.gives_up_after},
        **{"cpu_only": not gate.has_gpu(), "counters": False, "budget": asdict(Budget(attempts=options.attempts))},
    }


def _gate(options: argparse.Namespace) -> Callable[..., Any]:
    def judge(task: Task, source: str, *, tier: str = "closed", progress: Any = None) -> Any:
        return gate.evaluate(
            task,
            source,
            storage=options.storage,
            schedules=SCHEDULES[: options.schedules],
            workloads=task.workloads(options.storage)[: options.workloads],
            compile_baseline=False,
            rounds=options.rounds,
        )

    return judge


def _compile_ahead(waiting: queue.SimpleQueue[tuple[Task, str]], options: argparse.Namespace) -> None:
    """Compile what the campaigns may ask for; objects are found again by content."""
    with contextlib.suppress(queue.Empty):
        while True:
            _compile(*waiting.get_nowait(), options)


def _compile(task: Task, source: str, options: argparse.Namespace) -> str:
    verdict = gate.check(task, source, storage=options.storage, schedules=SCHEDULES[: options.schedules]).verdict
    return f"{verdict.status} {verdict.finding or ''}"


def _sources(task: Task) -> Iterator[str]:
    """What may be judged, in the likely order: the traced answer, the hand-written kernel, and the search's proposals
    that build on the traced answer, or on the second, which has all rewrites."""
    model, texts = BuiltinSearch(), []
    model.prepare(task)
    for shown in ((), (1,)):
        with contextlib.suppress(ModelError):  # nothing is left to propose, or the tracer cannot translate it
            while True:
                messages = [Message(role="assistant", content=texts[n]) for n in shown if n < len(texts)]
                texts.append(model.answer(messages, max_tokens=1).text)
    sources = [source for text in texts if isinstance(source := extract(text), str)]
    yield from sources[:1]
    if hand := _hand_written(task):
        yield hand
    yield from sources[1:]


def _hand_written(task: Task) -> str:
    path = HAND_WRITTEN / f"{task.name}.py"
    return path.read_text() if path.exists() else ""


def _kernel(task: Task, source: str) -> str:
    """What is compiled for the first schedule; two candidates that give the same are one kernel."""
    graph = read(source, tuple(task.operands.values()))
    return generate(graph, frame_of(task, "bf16"), SCHEDULES[0]).source


def _line(row: Row) -> str:
    def shown(who: str) -> str:
        tax = row.get(f"{who}_tax")
        return f"{who} {row.get(who, 'none')}" + (f" {tax:.3f}" if tax else "")

    text = f"L{row['level']} {row['task']}: {shown('tracer')}, {shown('search')}"
    if "attempts" in row:
        text += f" (attempt {row['best']} of {row['attempts']}, {row['ended']}), {shown('hand')}"
        if row.get("same_as"):
            text += f" (the same kernel as attempt {row['same_as']})"
        if (gap := _gap(row)) is not None:
            text += f", gap {100 * (gap - 1):+.1f} %"
        text += f", {row['seconds']} s"
    return text + "".join(f"\n  {f}" for f in [row.get("why"), *row.get("findings", [])] if f)


def _gap(row: Row) -> float | None:
    ours, theirs = row.get("search_tax"), row.get("hand_tax")
    return ours / theirs if ours and theirs else None


def _summary(name: str, rows: list[Row]) -> str:
    if not rows:
        return f"{name}: no task was measured"
    solved = {who: sum(r[who] in ("passed", "checked") for r in rows) for who in ("tracer", "search")}
    text = f"{name}: {len(rows)} tasks; solved by the tracer {solved['tracer']}, by the search {solved['search']}"
    gaps = [gap for r in rows if (gap := _gap(r)) is not None]
    if not gaps:
        return text + "; nothing was timed"
    near = sum(g <= NEAR for g in gaps)
    better = sum(bool(r.get("search_tax") and r["best"] > 1) for r in rows)
    text += f"; tax within 3 % of the hand-written kernel {near} of {len(gaps)} ({100 * near / len(rows):.0f} % of all)"
    return text + f"; better than the tracer {better}; gap in the mean {statistics.geometric_mean(gaps):.3f}"


if __name__ == "__main__":
    main()
