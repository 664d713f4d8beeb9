"""What a verdict's stages measured, in the record's form."""

from __future__ import annotations

from typing import Any

from ..gate.verdict import Verdict, key_of
from ..tasks import Workload
from .record import Best, Measure, Numerics, OutputError, Timing, WorkloadEvidence


def workloads_of(verdict: Verdict) -> tuple[WorkloadEvidence, ...]:
    """Errors and times of each workload, the timed ones last."""
    workloads: dict[tuple[str, str], Workload] = {}
    errors: dict[tuple[str, str], list[OutputError]] = {}
    timings: dict[tuple[str, str], list[Timing]] = {}
    for row in _data(verdict, "numerics").get("workloads", []):
        workload = Workload.model_validate(row["workload"])
        key = workload.label, workload.family
        workloads.setdefault(key, workload)
        errors.setdefault(key, []).extend(_error(row["schedule"], e) for e in row["errors"])
    tuned, stages = (_data(verdict, "tune").get(key, {}) for key in ("milliseconds", "stages"))
    for row in verdict.timing.get("workloads", []):
        workload = Workload.model_validate(row["workload"])
        key = workload.label, workload.family
        workloads.setdefault(key, workload)
        timings[key] = [_timing(row)]
        timings[key] += [
            Timing(schedule=schedule, milliseconds=Measure(value=value))
            for schedule, value in tuned.get(workload.label, {}).items()
            if schedule != row["schedule"]
        ]
        timings[key] += [
            Timing(schedule=key_of(stage, schedule), milliseconds=Measure(value=value))
            for stage, times in stages.get(workload.label, {}).items()
            for schedule, value in times.items()
        ]
    return tuple(
        WorkloadEvidence(workload=w, errors=tuple(errors.get(k, ())), timings=tuple(timings.get(k, ())))
        for k, w in workloads.items()
    )


def best_of(verdict: Verdict) -> tuple[Best, ...]:
    """The schedule that each shape was timed with: the record's times are those of what is loaded.

    The race before had taken another for the fastest of some shapes; the heats before the timing decide.
    """
    program = bool(_data(verdict, "tune").get("stages"))
    return tuple(
        best
        for row in verdict.timing.get("workloads", [])
        for best in winners(row["workload"]["sizes"], row["schedule"], program)
    )


def winners(sizes: dict[str, int], schedule: str, program: bool) -> list[Best]:
    """schedule: as a timing names it, "128x128-pingpong-2x1", or of a program "up 128x128-pingpong-2x1, down ..."."""
    if not program:
        return [Best(sizes=sizes, schedule=schedule)]
    parts = [part.split(" ") for part in schedule.split(", ")]
    return [Best(sizes=sizes, stage=stage, schedule=name) for stage, name in parts]


def numerics_of(verdict: Verdict) -> Numerics:
    """What the record promises of the values, in the terms of the gate's rule."""
    found = _data(verdict, "numerics")
    bound = (
        "against float64, every output within min(2 x the unfused path's own error, scale / 8) + max(eps, 1e-5) x "
        "scale, in the largest error and in the root mean square (outputs of fewer than 64 elements: scale / 2, and 8 "
        "times the second term)"
    )
    if "worst" in found:
        bound += f"; at worst {found['worst']:.2f} of that"
    order = "float32 over K, in the order of the tile's steps"
    if verdict.tier == "closed":
        order += "; reductions in float32, tile by tile, joined in a fixed order"
    return Numerics(bound=bound, deterministic=_data(verdict, "guards").get("deterministic"), accumulation=order)


def _data(verdict: Verdict, stage: str) -> dict[str, Any]:
    return next((s.data for s in verdict.stages if s.stage == stage), {})


def _error(schedule: str, row: dict[str, Any]) -> OutputError:
    return OutputError(schedule=schedule, **{k: row[k] for k in OutputError.model_fields if k != "schedule"})


def _timing(row: dict[str, Any]) -> Timing:
    milliseconds = row["milliseconds"]
    return Timing(
        schedule=row["schedule"],
        milliseconds=Measure(value=milliseconds["kernel"]),
        tax=_measure(row.get("tax")),
        over_eager=_measure(row.get("over_eager")),
        over_compile=_measure(row.get("over_compile")),
        sol=_measure(row.get("sol")),
        bare=row.get("bare", ""),
        others={name: value for name, value in milliseconds.items() if name != "kernel"},
    )


def _measure(value: float | dict[str, float] | None) -> Measure | None:
    if value is None:
        return None
    return Measure(**value) if isinstance(value, dict) else Measure(value=value)
