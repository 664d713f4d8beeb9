"""Stage 3: compile the candidate for sm_90a under each schedule, in child processes that see no GPU.

Closed tier: the template generates the source, so a message of the compiler is the template's fault.
Open tier: the candidate's own module is compiled, and messages point at its lines.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any

from ..primitives.graph import Graph
from ..tasks.task import Task
from ..templates.compile import ROOM, Compiled, Compiler, cache_folder
from ..templates.errors import TemplateError
from ..templates.frame import blank_signature
from ..templates.generate import generate
from ..templates.sandbox import lacking
from ..templates.schedule import SCHEDULES, Schedule
from ..templates.signature import Signature
from .frame import frame_of
from .messages import Explanation, clean, explain
from .verdict import Finding, StageResult, Tier

SPILL_LIMIT = 128
"""Bytes a thread. Some tens cost little; heavy epilogues spill 500 to 1300 on the tiles that do not suit them.
A schedule above is dropped if one that compiled stays below."""
MIN_STAGES = 2
"""Pipeline stages of the product. With one, loads and multiplications take turns: dropped if another has more."""

ENVIRONMENT = "environment"
"""Code of a finding that is about this machine, and no fault of the candidate."""
_NOT_OURS = ("shared-memory", "time-limit", "killed", ENVIRONMENT)

Progress = Callable[[str, str], None]
"""Called with the stage and a line of text."""


def compile_stage(
    task: Task,
    graph: Graph | None,
    source: str,
    *,
    tier: Tier,
    storage: str,
    compiler: Compiler,
    schedules: Sequence[Schedule] = SCHEDULES,
    progress: Progress | None = None,
) -> tuple[StageResult, list[Compiled]]:
    """Compile under all schedules at once; passes if at least one compiles.

    graph: what `read_stage` made of the source; None in the open tier, where the source itself is compiled.
    Returns the stage and the kernels to go on with, in the order of the schedules.
    Data: schedules, by name: ok, kept, seconds, spill_bytes, stages, cached, and why where one was not kept.
    """
    started = time.perf_counter()
    try:
        jobs = _jobs(task, graph, source, tier, storage, schedules)
    except TemplateError as error:
        finding = Finding(code=error.code, message=error.message, remedy=error.remedy)
        return _failed(started, finding, {}), []
    futures: dict[Future[Compiled], str] = {}
    for text, signature in jobs:
        futures[compiler.submit(text, signature, tier=tier)] = signature.schedule.name
    for count, future in enumerate(as_completed(futures), 1):
        if progress:
            done = future.result()
            progress("compile", f"{count} of {len(futures)}: {done.schedule} {'compiled' if done.ok else 'failed'}")
    results = [future.result() for future in futures]
    kept, why = _choose(results)
    data: dict[str, Any] = {"schedules": {r.schedule: _measured(r, why.get(r.schedule, "")) for r in results}}
    held = next((r.sandbox for r in results if r.sandbox), {})
    data["sandbox"] = held
    missing = lacking(held) if held or tier == "cutedsl" else []
    if missing:
        data["warning"] = f"compiled with less isolation than asked: {'; '.join(missing)}"
    if not kept:
        return _failed(started, _finding(results, tier, getattr(compiler, "folder", cache_folder())), data), []
    seconds = time.perf_counter() - started
    note = _note(kept, len(results))
    if missing and tier == "cutedsl":
        note += f"; the sandbox lacks {', '.join(m.partition(' (')[0] for m in missing)}"
    return StageResult(stage="compile", outcome="passed", seconds=seconds, note=note, data=data), kept


def _jobs(
    task: Task, graph: Graph | None, source: str, tier: Tier, storage: str, schedules: Sequence[Schedule]
) -> list[tuple[str, Signature]]:
    frame = frame_of(task, storage)
    if tier == "cutedsl":
        return [(source, blank_signature(frame, schedule)) for schedule in schedules]
    if graph is None:
        raise ValueError("the closed tier compiles a graph; pass the one that read_stage returned")
    made, refused = [], None
    for schedule in schedules:
        try:
            made.append(generate(graph, frame, schedule))
        except TemplateError as error:
            if error.code != "tile-width":
                raise
            refused = error
    if refused and not made:
        raise refused
    return [(g.source, g.signature) for g in made]


def _choose(results: list[Compiled]) -> tuple[list[Compiled], dict[str, str]]:
    """The kernels to go on with, and why the others are not among them."""
    why = {r.schedule: clean(r.error) for r in results if not r.ok}
    kept = [r for r in results if r.ok]

    def drop(bad: Callable[[Compiled], bool], reason: Callable[[Compiled], str]) -> None:
        nonlocal kept
        good = [r for r in kept if not bad(r)]
        if good:
            why.update({r.schedule: reason(r) for r in kept if bad(r)})
            kept = good

    drop(lambda r: r.stages is not None and r.stages < MIN_STAGES, lambda r: f"only {r.stages} pipeline stage")
    drop(lambda r: (r.spill_bytes or 0) > SPILL_LIMIT, lambda r: f"spills {r.spill_bytes} bytes a thread")
    return kept, why


def _measured(result: Compiled, why: str) -> dict[str, Any]:
    data: dict[str, Any] = {
        "ok": result.ok,
        "kept": result.ok and not why,
        "seconds": round(result.seconds, 3),
        "spill_bytes": result.spill_bytes,
        "stages": result.stages,
        "cached": result.cached,
    }
    return data | ({"why": why[:500]} if why else {})


def _note(kept: list[Compiled], total: int) -> str:
    text = f"{len(kept)} of {total} schedule{'s' * (total != 1)}"
    spills = {r.schedule: r.spill_bytes for r in kept if r.spill_bytes is not None}
    clean_ones = [name for name, spilled in spills.items() if not spilled]
    if not spills:
        return text
    if len(clean_ones) == len(kept):
        return f"{text}, no spills"
    if clean_ones:
        return f"{text}, no spills on {clean_ones[0]}"
    least = min(spills, key=lambda name: spills[name] or 0)
    return f"{text}, at least {spills[least]} bytes a thread spilled (on {least})"


def _failed(started: float, finding: Finding, data: dict[str, Any]) -> StageResult:
    seconds = time.perf_counter() - started
    return StageResult(stage="compile", outcome="failed", seconds=seconds, finding=finding, data=data)


def _finding(results: list[Compiled], tier: Tier, folder: Path) -> Finding:
    """One finding for all schedules: what most of them failed of."""
    explained = [(r, explain(r.error)) for r in results]
    common = Counter(e.code for _, e in explained).most_common(1)[0][0]
    result, explanation = next((r, e) for r, e in explained if e.code == common)
    details = {"schedule": result.schedule, "compiler": clean(result.error)}
    if tier == "closed" and explanation.code not in _NOT_OURS:
        explanation = Explanation(
            "template-bug",
            f"The kernel generated from this epilogue does not compile: {explanation.message}",
            "This is a fault of the template, not of the candidate: report it, and try another way of writing it.",
        )
    if tier == "cutedsl" and explanation.code == ENVIRONMENT and (result.line or not machine_lacks(folder)):
        # Raised on a line of the candidate's own, or said by a child that ran it: it may look like a fault of this
        # machine, and is none.
        explanation = Explanation("compiler-error", f"The module does not compile: {clean(result.error)[:300]}")
    line = result.line if tier == "cutedsl" else None
    return Finding(
        code=explanation.code, message=explanation.message, remedy=explanation.remedy, line=line, details=details
    )


def machine_lacks(folder: Path) -> str:
    """What compiling needs and this machine lacks, found by looking: the linker, a package, or room; else "".

    A child that has run a candidate's module is not believed when it says so.
    """
    linker = os.environ.get("CC", "gcc")
    if shutil.which(linker) is None:
        return f"the linker {linker!r}"
    for package in ("quack", "cutlass", "torch", "tvm_ffi"):
        if importlib.util.find_spec(package) is None:
            return f"the package {package}"
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < ROOM:
            return f"room in {folder}"
    return ""
