"""What was measured of a kernel that passed, in lines from which its author can see where the time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..templates.pipeline_stages import few
from ..templates.schedule import by_name
from .counters import told
from .rendering import one_line

if TYPE_CHECKING:
    from ..gate.verdict import Verdict
    from ..tasks import Task

SHAPES = 4
"""The most workloads that are told of."""


def measured(verdict: Verdict, task: Task | None = None) -> list[str]:
    """Compiling, the schedules that were raced, and each workload's times.

    task: gives the bytes that any kernel must move, beside the times.
    """
    stages = {s.stage: s for s in verdict.stages if s.outcome == "passed"}
    lines = []
    if "compile" in stages:
        lines.append(f"compile: {stages['compile'].note}")
        timed = verdict.timing.get("workloads") or [{}]
        bits = 8 if timed[0].get("workload", {}).get("storage") == "fp8" else 16
        lines += _compiled(stages["compile"].data.get("schedules") or {}, bits)
    if "tune" in stages:
        lines += _raced(stages["tune"].data.get("milliseconds") or {}) or [f"tune: {stages['tune'].note}"]
    if "timing" in stages:
        lines += told(stages["timing"].data.get("counters") or {})
    for row in verdict.timing.get("workloads", [])[:SHAPES]:
        lines += _workload(row, verdict.environment.get("gpu", ""), task)
    return [one_line(line, 400) for line in lines]


def _compiled(schedules: dict[str, dict[str, Any]], bits: int) -> list[str]:
    """Spills and pipeline stages by schedule, and what was dropped and why; of programs, `PRODUCT/SCHEDULE`."""
    kept, dropped, short = [], [], []
    for name, seen in schedules.items():
        if not seen.get("kept", True):
            dropped.append(f"{name} ({one_line(str(seen.get('why', 'unknown')), 60)})")
            continue
        says = []
        if seen.get("stages") is not None:
            says.append(f"{seen['stages']} pipeline stage{'s' * (seen['stages'] != 1)}")
            short += [name] * _few(name, seen["stages"], bits)
        if seen.get("spill_bytes"):
            says.append(f"{seen['spill_bytes']} bytes a thread spilled")
        if says:
            kept.append(f"{name} {' and '.join(says)}")
    lines = [f"left by your epilogue: {'; '.join(kept)}"] if kept else []
    if short:
        lines[-1] += f" (too few stages: {', '.join(short)}; the tiles that it reads and stores take the shared memory)"
    return lines + ([f"schedules that were dropped: {'; '.join(dropped)}"] if dropped else [])


def _few(name: str, stages: int, bits: int) -> bool:
    """Of a schedule, or PRODUCT/SCHEDULE: whether these leave the multiplication waiting for memory."""
    try:
        schedule = by_name(name.rpartition("/")[2])
    except KeyError:
        return False
    return few(stages, schedule.tile_m, schedule.tile_n, bits)


def _raced(times: dict[str, dict[str, float]]) -> list[str]:
    """The schedules that were tried, fastest first."""
    lines = []
    for label, found in list(times.items())[:SHAPES]:
        order = sorted(found.items(), key=lambda pair: pair[1])
        lines.append(f"schedules tried on {label}, in ms: " + ", ".join(f"{n} {_ms(t)}" for n, t in order))
    return lines


def _workload(row: dict[str, Any], gpu: str, task: Task | None) -> list[str]:
    sizes = " ".join(f"{symbol}{size}" for symbol, size in row["workload"]["sizes"].items())
    numbers = {
        "tax": row.get("tax"),
        "over torch.compile": row.get("over_compile"),
        "share of the roofline": row.get("sol"),
    }
    shown = [f"{name} {_number(value):.3f}" for name, value in numbers.items() if value is not None]
    lines = [f"{sizes}, schedule {row.get('schedule', 'unknown')}: {', '.join(shown)}"]
    times = row.get("milliseconds") or {}
    if "kernel" in times and times.get(row.get("bare")):
        bare = times[row["bare"]]
        lines.append(
            f"{sizes}: {_ms(times['kernel'])} ms, of which the multiplication alone takes {_ms(bare)} and your "
            f"epilogue adds {_ms(max(0.0, times['kernel'] - bare))}"
        )
    return lines + (_bytes(row, sizes, gpu, task) if task is not None else [])


def _bytes(row: dict[str, Any], sizes: str, gpu: str, task: Task) -> list[str]:
    """Which of the two limits of the machine is nearer: what the epilogue must move, or the multiplication itself."""
    from ..gate.roofline import compulsory_bytes, peaks
    from ..tasks import TaskError, Workload

    operations, bandwidth = peaks(gpu)
    try:
        workload = Workload.model_validate(row["workload"])
        moved = compulsory_bytes(task, workload)
    except (TaskError, ValidationError):  # a journal's sizes that are not this task's: nothing to be said of them
        return []
    return [
        f"{sizes}: any kernel must move {moved / 1e6:,.0f} MB ({_ms(1e3 * moved / bandwidth)} ms at the memory's rate) "
        f"and multiply for {_ms(1e3 * task.flops(workload.sizes) / operations)} ms"
    ]


def _ms(time: float) -> str:
    return f"{time:.3f}"


def _number(value: Any) -> float:
    """A measure, with or without its interval."""
    return float(value["value"] if isinstance(value, dict) else value)
