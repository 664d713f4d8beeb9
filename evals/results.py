"""results.json: everything that a reader needs to judge a ranking, as one document with a schema (docs/evals.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from .compare import Pair
from .complete import Complete, complete
from .evalset import EvalSet, LoadedSet, read_set
from .rows import Row
from .run_folder import RunFolder, RunSpec
from .scores import HAND_WRITTEN, Score, score_rows

RESULTS, PAGE = "results.json", "report.html"

NOT_MEASURED = (
    "No GPU took part. Candidates were read, interpreted in float64 and compiled for sm_90a, and those that came "
    "through are called checked. Numerics on the GPU, writes outside the outputs, and speed were not measured: what is "
    "checked may still be wrong or slow, and nothing here says how fast any kernel is."
)


class Cell(BaseModel):
    """One task by one contestant."""

    model_config = ConfigDict(frozen=True)

    task: str
    contestant: str
    samples: int
    passed: int
    """Samples that passed (without a GPU: were checked)."""
    status: str
    """Of the best sample."""
    tax: float | None = None
    speedup: float | None = None
    finding: str = ""
    """Where the best sample failed: the stage, and the finding's code."""
    best: int
    """The best sample's number."""


class Results(BaseModel):
    """The document."""

    model_config = ConfigDict(frozen=True)

    format: Literal["codasmith-eval-results/1"] = "codasmith-eval-results/1"
    run: RunSpec
    eval_set: EvalSet
    measured: bool
    """Whether a GPU took part; without one, no score of speed exists."""
    notes: tuple[str, ...]
    """What a careful reader must know: what was not measured, what is missing, what differs between rows."""
    environments: tuple[dict[str, str], ...]
    """GPU, driver and versions of the rows; more than one is said in the notes."""
    unscored: tuple[str, ...] = ()
    """Tasks that the run has not finished for every contestant."""
    scores: tuple[Score, ...]
    pairs: tuple[Pair, ...]
    cells: tuple[Cell, ...]


def results_of(spec: RunSpec, eval_set: EvalSet, rows: list[Row]) -> Results:
    """Score a run, whole or not. Pure: equal rows give an equal document."""
    entries = {e.name: e for e in eval_set.tasks if spec.tasks is None or e.name in spec.tasks}
    rows = sorted((r for r in rows if r.task in entries), key=lambda r: r.key)
    known = {name: entry.known.how for name, entry in entries.items() if entry.known}
    whole = complete(spec, eval_set, rows)
    scores, pairs = score_rows(whole.rows, cpu_only=spec.cpu_only, published=known)
    environments = {json.dumps(r.environment, sort_keys=True): r.environment for r in rows if r.environment}
    return Results(
        run=spec,
        eval_set=eval_set,
        measured=not spec.cpu_only,
        notes=tuple(_notes(spec, eval_set, rows, whole, scores, len(entries), list(known.values()), len(environments))),
        environments=tuple(environments[key] for key in sorted(environments)),
        unscored=whole.unscored,
        scores=tuple(scores),
        pairs=tuple(pairs),
        cells=tuple(_cells(rows, spec.cpu_only)),
    )


def write_results(folder: RunFolder, loaded: LoadedSet | None = None) -> Results:
    """Score what is in a run's folder, and write results.json and report.html there."""
    from .page import render_page

    spec = folder.spec()
    eval_set = loaded.spec if loaded else read_set(spec.set)[0]
    rows = folder.rows()
    results = results_of(spec, eval_set, rows)
    _write(folder.path / RESULTS, results.model_dump_json(indent=1) + "\n")
    _write(folder.path / PAGE, render_page(results, rows, folder.path))
    return results


def label(row: Row) -> str:
    return row.model if row.tier == "closed" else f"{row.model} ({row.tier})"


def best_sample(rows: list[Row]) -> Row:
    """The one to show: solved before checked, then the fastest, then the furthest, then the earliest."""
    return min(rows, key=lambda r: (not r.solved, not r.checked, -(r.speedup or 0.0), r.status == "none", r.sample))


def _cells(rows: list[Row], cpu_only: bool) -> list[Cell]:
    by: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by.setdefault((row.task, label(row)), []).append(row)
    found = []
    for (task, name), samples in sorted(by.items()):
        best = best_sample(samples)
        last = best.attempts[-1] if best.attempts and not best.checked else None
        found.append(
            Cell(
                task=task,
                contestant=name,
                samples=len(samples),
                passed=sum(r.checked if cpu_only else r.solved for r in samples),
                status=best.status,
                tax=best.tax,
                speedup=best.speedup,
                finding=": ".join(filter(None, (last.stage, last.code))) if last else "",
                best=best.sample,
            )
        )
    return found


def _notes(
    spec: RunSpec,
    eval_set: EvalSet,
    rows: list[Row],
    whole: Complete,
    scores: list[Score],
    tasks: int,
    known: list[str],
    environments: int,
) -> list[str]:
    of = f"{tasks} of its {len(eval_set.tasks)}" if tasks != len(eval_set.tasks) else f"all {tasks}"
    notes = [f"The set {eval_set.name} (version {eval_set.version}, {eval_set.split}), {of} tasks."]
    if spec.cpu_only:
        notes.insert(0, NOT_MEASURED)
    elif spec.shapes is not None:
        first = "shape" if spec.shapes == 1 else f"{spec.shapes} shapes"
        notes.append(f"Each task was timed at its first {first}, not at all of them.")
    if not spec.cpu_only:
        notes.append("Answers that say the same are one kernel, judged once: its times stand in each of their rows.")
    notes += _baseline_notes(whole.rows)
    notes += whole.notes
    counts = Counter((r.model, r.tier) for r in rows)
    silent = Counter((r.model, r.tier) for r in rows if r.ended == "model")
    for (model, tier), count in sorted(silent.items()):
        notes.append(
            f"{model} ({tier}): {count} of its {counts[model, tier]} samples ended because it gave no further answer, "
            "which counts against it; `codasmith journal show` on their journals says why."
        )
    if spec.shard != "1/1":
        notes.append(f"This is part {spec.shard} of a run; merge the parts before comparing.")
    if environments > 1:
        notes.append(
            f"The rows come from {environments} different machines or versions of software, the gate included; times "
            "between them differ."
        )
    if known:
        notes.append(
            f"Solutions that models may have read are public in quack's library: of {known.count('same')} tasks the "
            f"very expression, of {len(known) - known.count('same')} nearly that."
        )
    notes += [f"{s.label}: {s.incomplete_costs}, so its costs are too low." for s in scores if s.incomplete_costs]
    if not any(r.model == HAND_WRITTEN for r in rows):
        notes.append("No task here has a hand-written kernel in this run.")
    if eval_set.split == "held-out":
        notes.append("Held-out tasks are random compositions: they test writing what is asked, not knowing the field.")
    return notes


def _baseline_notes(rows: Sequence[Row]) -> list[str]:
    """Where torch.compile was not timed beside the kernel."""
    timed = [(r.task, t) for r in rows for t in r.timed]
    kept = sum(t.kept for _, t in timed)
    without = sorted({task for task, t in timed if "compile" not in t.milliseconds})
    notes = []
    if kept:
        notes.append(
            f"In {kept:,} of {len(timed):,} timings torch.compile's time is that of an earlier one of the task, as a "
            "ratio to cuBLAS; eager, timed anew, had not moved against it."
        )
    if without:
        notes.append(
            f"torch.compile could not be timed on {len(without)} tasks, where the best baseline is therefore eager: "
            f"{', '.join(without)}."
        )
    return notes


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
