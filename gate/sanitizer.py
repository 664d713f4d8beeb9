"""compute-sanitizer over compiled kernels: many in one process, for starting the tool takes most of its time.

memcheck always; racecheck where it is quiet on the bare template, for a tool that cries at the template says
nothing about an epilogue.  Where the tool is absent, does not work or runs out of time, that is the stage's outcome
("skipped", with the reason), never silence.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..tasks import Task
from ..templates import sandbox
from ..templates.signature import Signature
from . import contain
from .sanitized import BEGIN, END, FAILED
from .verdict import Finding, StageResult

SHAPES = (0, 2)
"""Which of a task's correctness workloads: small, ragged in rows and columns."""
LIMIT_S = 600.0
MOST_BAD = 8
"""Kernels with a finding after which the rest is left unrun: each costs another start of the tool."""

_PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/opt/cuda/bin/compute-sanitizer")
_FINDING = re.compile(
    r"^=+ (?:(Invalid .+|Misaligned .+|.*\bhazards?\b.+|Barrier error.+|Uninitialized .+|Program hit .+|"
    r"Address .+ is out of bounds|Fatal .+|Unused memory.+|Malloc/Free error.+))"
)
_BROKEN = re.compile(
    r"^=+ (?:Error: )?(.*(?:Device not supported|Internal (?:Sanitizer )?Error|Unable to|Failed to|No attachable).*)"
)
_WHERE = re.compile(r"^=+\s+at (.+)")


@dataclass(frozen=True)
class Item:
    """One kernel to run under the tool."""

    name: str
    path: Path
    signature: Signature
    sizes: tuple[dict[str, int], ...]
    hostile: bool = False
    """Whether the object is native code of a candidate's author."""


@dataclass
class _Heard:
    """What one run of the tool said, by kernel."""

    ended: set[str] = field(default_factory=set)
    findings: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)
    broken: str = ""


def items(
    name: str, task: Task, storage: str, objects: dict[str, Path], signatures: dict[str, Signature], tier: str
) -> list[Item]:
    """A kernel's gated objects, by schedule or stage and schedule, on small ragged sizes."""
    made = []
    for key, path in objects.items():
        stage = key.partition(".")[0] if "." in key else ""
        part = task.parts[stage]
        workloads = part.correctness_workloads(storage)  # type: ignore[arg-type]
        sizes = tuple(workloads[number].sizes for number in SHAPES)
        made.append(Item(f"{name}/{key}", path, signatures[key], sizes, tier != "closed"))
    return made


def tool() -> str:
    """Where compute-sanitizer is; empty where it is not."""
    return shutil.which("compute-sanitizer") or next((p for p in _PLACES if Path(p).exists()), "")


def sanitize(
    found: Sequence[Item],
    *,
    check: str = "memcheck",
    limit_s: float = LIMIT_S,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, StageResult]:
    """By item's name, what the tool says of it. Never raises for what a kernel or the tool does."""
    program = tool()
    if not program:
        return _all(found, "not run: compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    results: dict[str, StageResult] = {}
    waiting, deadline, bad = list(found), time.monotonic() + limit_s, 0
    while waiting:
        left = deadline - time.monotonic()
        if left <= 0 or bad >= MOST_BAD:
            why = "the time was up" if left <= 0 else f"{bad} kernels before it had findings"
            return results | _all(waiting, f"not run: {why}")
        started = time.monotonic()
        heard = hear(_run(program, check, waiting, left))
        seconds = (time.monotonic() - started) / max(len(heard.ended) + len(heard.failed), 1)
        done = {i.name: r for i in waiting if (r := _result(i, check, heard, seconds)) is not None}
        for name, result in done.items():
            say(f"{name}: {check} {result.finding or 'quiet'}")
        bad += sum(r.outcome == "failed" for r in done.values())
        results |= done
        waiting = [i for i in waiting if i.name not in done]
        if not done:
            why = heard.broken or (heard.stray[0] if heard.stray else "the tool ended before the first kernel did")
            return results | _all(waiting, f"not run: {why}")
    return results


def both(
    found: Sequence[Item],
    bare: Sequence[Item],
    *,
    limit_s: float = LIMIT_S,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, StageResult]:
    """memcheck of all; then racecheck, if it is quiet on the bare template."""
    started = time.monotonic()
    results = sanitize(found, limit_s=limit_s, say=say)
    clean = [i for i in found if results[i.name].outcome == "passed"]
    if not clean:
        return results

    def left() -> float:
        return limit_s - (time.monotonic() - started)

    quiet = sanitize(bare, check="racecheck", limit_s=left(), say=say)
    loud = [r for r in quiet.values() if r.outcome != "passed"]
    if loud or not quiet:
        why = str(loud[0].finding or loud[0].note) if loud else "there is no bare template to try it on"
        races = {
            i.name: StageResult(stage="sanitizer", outcome="skipped", note=f"racecheck not used: {why}") for i in clean
        }
    else:
        races = sanitize(clean, check="racecheck", limit_s=left(), say=say)
    for name, race in races.items():
        if race.outcome == "failed":
            results[name] = race
        else:
            note = f"{results[name].note}; {race.note}"
            results[name] = results[name].model_copy(
                update={"note": note, "seconds": results[name].seconds + race.seconds}
            )
    return results


def together(results: dict[str, StageResult]) -> StageResult:
    """One stage of a kernel's several objects: the first with a finding, or the first that was not run, or all well."""
    for outcome in ("failed", "skipped"):
        worst = [r for r in results.values() if r.outcome == outcome]
        if worst:
            return worst[0].model_copy(update={"seconds": sum(r.seconds for r in results.values())})
    if not results:
        return StageResult(stage="sanitizer", outcome="skipped", note="not run: no object")
    first = next(iter(results.values()))
    return first.model_copy(
        update={
            "seconds": sum(r.seconds for r in results.values()),
            "note": f"{len(results)} object{'s' * (len(results) != 1)}: {first.note}",
            "data": {"objects": sorted(results)},
        }
    )


def hear(text: str) -> _Heard:
    """Sort a run's lines by kernel: those of the launcher mark where one begins and ends."""
    heard, current, last = _Heard(), "", ""
    for line in text.splitlines():
        if line.startswith(BEGIN):
            current = last = line.removeprefix(BEGIN)
        elif line.startswith(END):
            heard.ended.add(line.removeprefix(END))
            current = ""
        elif line.startswith(FAILED):
            name, _, why = line.removeprefix(FAILED).partition(" ")
            heard.failed[name], current = why, ""
        elif match := _FINDING.match(line):
            # The tool may speak up a little after its kernel.
            (heard.findings.setdefault(current or last, []) if current or last else heard.stray).append(
                match[1].strip()
            )
        elif (match := _WHERE.match(line)) and heard.findings.get(current or last):
            said = heard.findings[current or last]
            if " at " not in said[-1]:
                said[-1] += f" at {match[1].strip()[:160]}"
        elif match := _BROKEN.match(line):
            heard.broken = heard.broken or match[1].strip()[:300]
    return heard


def _result(item: Item, check: str, heard: _Heard, seconds: float) -> StageResult | None:
    """None where the run says nothing of this kernel."""
    said = heard.findings.get(item.name, [])
    failed = heard.failed.get(item.name)
    if not said and failed is None:
        if item.name not in heard.ended:
            return None
        note = f"{check} is quiet on {len(item.sizes)} workloads"
        return StageResult(stage="sanitizer", outcome="passed", seconds=seconds, note=note, data={"tool": check})
    if not said and heard.broken:
        return None
    if not said and (failed is None or "CUDA error" not in failed or "out of memory" in failed):
        return StageResult(stage="sanitizer", outcome="skipped", note=f"not run: {failed}")
    schedule = item.signature.schedule.name
    line = said[0] if said else str(failed)
    finding = Finding(
        code=f"sanitizer-{check}",
        message=f"compute-sanitizer's {check} on {item.signature.symbol or item.name} under {schedule}: {line}.",
        remedy="Read and write inside the declared tensors only, on ragged tiles too.",
        details={"schedule": schedule, "lines": said[:20], "sizes": list(item.sizes)},
    )
    return StageResult(stage="sanitizer", outcome="failed", seconds=seconds, finding=finding, data={"tool": check})


def _run(program: str, check: str, waiting: Sequence[Item], limit_s: float) -> str:
    """The launcher's and the tool's lines, in the order in which they came."""
    with tempfile.TemporaryDirectory(prefix="codasmith-sanitizer-") as folder:
        objects, _ = contain.folders(Path(folder))
        listed: list[dict[str, Any]] = []
        for number, item in enumerate(waiting):
            path = objects / f"{number}.so"
            shutil.copyfile(item.path, path)
            made = {"name": item.name, "path": str(path), "sizes": list(item.sizes)}
            listed.append({**made, "signature": item.signature.model_dump(mode="json")})
        hostile = any(i.hostile for i in waiting)
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({"items": listed, "folder": folder if hostile else ""}))
        options = [program, "--tool", check, "--report-api-errors", "no", "--print-limit", "50"]
        if check == "racecheck":
            options = [program, "--tool", check, "--racecheck-report", "analysis", "--print-limit", "50"]
        command = [*options, sys.executable, "-P", "-m", "codasmith.gate.sanitized", str(job)]
        driver = {k: v for k, v in os.environ.items() if k.startswith(("CUDA_", "NVIDIA_"))}
        environment = {**sandbox.environment(), **driver, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "HOME": folder}
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                text, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, _ = process.communicate()
                text += "\n========= Error: Unable to finish within the time limit"
            return text


def _all(found: Sequence[Item], note: str) -> dict[str, StageResult]:
    return {i.name: StageResult(stage="sanitizer", outcome="skipped", note=note) for i in found}
