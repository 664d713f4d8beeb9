"""The times: candidate, bare GEMM and baselines in turn, by the referee's clock; a measurement, not a judgement.

Every turn is one pass over several sets of buffers whose content no call has seen before, into outputs filled with
NaN; what some of those turns left behind, drawn by lot, is compared with the reference.  Refuses only what cannot
be: a time below the hardware's own roofline, timed outputs that are wrong, or inputs that were changed.
"""

from __future__ import annotations

import math
import os
import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..tasks import ProgramTask, Task, Workload
from . import baselines, canary, nvml
from .buffers import BufferSet
from .job import Job, NotAlone, Refused
from .machine import home
from .memory import enough_memory
from .roofline import pointwise_bytes, roofline_ms
from .sampled import Sample
from .stopwatch import Interval, Replay, at_most, ratio, rounds, spread
from .tune import freshen, prepare, record
from .verdict import Finding, StageResult

if TYPE_CHECKING:
    from .referee import Referee

BUDGET_S, PATIENCE_S = 2.0, 6.0
"""What the rounds of one workload may take, and what they may where an interval is wider than NARROW."""
NARROW = 0.01
WARM_S = 0.4
HEATS, HEATS_S = 5, 2.0
"""Rounds in which the schedules, the bare template's too, race for their place, and seconds until which there are more
where one that seems the fastest may be more than CLOSE slower than another."""
CLOSE = 0.03
UNSURE = 0.1
"""A ratio whose interval is wider than this was taken while something disturbed the GPU, and the verdict says so."""
CUBLAS, BARE = "cublas", "bare "
"""How contestants of a product are called; in a program with the stage before it."""
BELOW = 0.97  # of the roofline: less is a broken measurement


HELD_UP = 5.0
"""Times the least that an empty call takes: where the median takes more, somebody else holds the GPU."""


def measure(referee: Referee, job: Job) -> list[StageResult]:
    """Time every declared workload. Raises Refused for a time that cannot be."""
    folder = home()
    seen = canary.look(folder, referee.environment, _own(referee)) if job.timed else {}
    copy_rate = _copy_rate()
    rows = []
    for workload in job.timed:
        with enough_memory(job.task, workload):
            rows.append(_one(referee, job, workload, copy_rate))
    summary = summarise(rows)
    note = f"tax {summary['tax']:.3f}" if summary.get("tax") else "no workload"
    if summary.get("over_compile"):
        note += f", {summary['over_compile']:.2f}x torch.compile"
    warnings = [seen["warning"]] if seen.get("warning") else []
    held = {r for row in rows for r in row["gpu"].get("held_back_by", [])} & nvml.HELD_BACK
    if held:
        warnings.append(f"the board was held back by {', '.join(sorted(held))}")
    warnings += [found for workload, row in zip(job.timed, rows, strict=True) if (found := _disturbed(workload, row))]
    data = {
        "workloads": rows,
        "summary": summary,
        "copy_bytes_per_second": copy_rate,
        "canary": seen,
        "gpu": nvml.state(),
    }
    if warnings:
        data["warning"] = "; ".join(warnings)
        note += f"; {data['warning']}"
    return [StageResult(stage="timing", outcome="passed", note=note, data=data)]


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means over workloads."""
    result = {}
    for key in ("tax", "over_eager", "over_compile", "sol"):
        values = [row[key]["value"] if isinstance(row[key], dict) else row[key] for row in rows if row.get(key)]
        if values and len(values) == len(rows):
            result[key] = math.exp(statistics.fmean(map(math.log, values)))
    return result


def _own(referee: Referee) -> set[int]:
    return {os.getpid(), referee.runner.process.pid}


def _one(referee: Referee, job: Job, workload: Workload, copy_rate: float) -> dict[str, Any]:
    times = job.tuned[workload.label]
    likely = min(times[name] for name in job.gated)
    sets = prepare(referee, job, workload, bare=True, likely=likely)
    number = len(sets)
    ours = {
        f"kernel {i.schedule}": (record(referee, f"kernel-{i.key}", i, sets), number)
        for i in job.candidate
        if i.schedule in job.gated
    }
    bare = {stage: _template(referee, job, stage, sets) for stage in job.task.parts}
    fields = [list(field) for field in (ours, *bare.values()) if field]
    heats = {**ours, **{name: c for found in bare.values() for name, c in found.items()}}
    raced = rounds(
        heats, HEATS, 0.0, before=lambda _: freshen(sets), enough=partial(_settled, fields), patience_s=HEATS_S
    )
    winner = min(ours, key=lambda name: statistics.median(raced[name]))
    contestants: dict[str, tuple[Replay, int]] = {"kernel": ours[winner]}
    for stage, part in job.task.parts.items():
        for fastest in sorted(bare[stage], key=lambda name: statistics.median(raced[name]))[:1]:
            contestants[fastest] = bare[stage][fastest]
        contestants[_named(stage, CUBLAS)] = (baselines.cublas(part, [b.bare[stage] for b in sets]), number)
    contestants["eager"] = (baselines.eager(job.task, sets), number)
    kept = baselines.recall(home(), referee.environment, job.task, workload) if job.compile_baseline else {}
    kept = kept if kept.get("uses", baselines.REUSED) < baselines.REUSED else {}
    failed = "" if kept or not job.compile_baseline else _compile(job, sets, contestants)
    watch = nvml.Watch()
    measured = _race(referee, job, workload, sets, contestants, watch)
    if kept and not _agrees(kept["over_cublas"], measured):
        kept, failed = {}, _compile(job, sets, contestants)
        measured = _race(referee, job, workload, sets, contestants, watch)
    del contestants, ours, bare, heats
    torch.cuda.empty_cache()
    referee.runner.call("forget")
    row = _row(job, workload, measured, winner.partition(" ")[2], copy_rate, referee.environment["gpu"])
    if (kernel := row["milliseconds"]["kernel"]) < BELOW * row["roofline_ms"]:
        _too_fast(workload, kernel, row["roofline_ms"], nvml.others(_own(referee)))
    _compare_with_compile(referee, job, workload, measured, kept, row)
    if failed:
        row["compile_failed"] = failed
    row["sets"], row["gpu"] = number, watch.summary()
    best = row["best_baseline"]
    job.say(
        "timing",
        f"{workload.label}: {row['milliseconds']['kernel']:.3f} ms, tax {row['tax']['value']:.3f}, "
        f"{row[f'over_{best}']['value']:.2f}x {best}",
    )
    return row


def _settled(fields: list[list[str]], raced: dict[str, list[float]]) -> bool:
    """Whether what seems the fastest of each field is surely about as fast as any of it."""
    for field in fields:
        fastest = raced[min(field, key=lambda name: statistics.median(raced[name]))]
        if any(at_most(fastest, raced[name]) > 1 + CLOSE for name in field):
            return False
    return True


def _template(referee: Referee, job: Job, stage: str, sets: list[BufferSet]) -> dict[str, tuple[Replay, int]]:
    """The bare template's schedules on a stage's product."""
    gemm = job.task.parts[stage].gemm
    ways = gemm.a_transposed, gemm.b_transposed
    fit = [b for b in job.bare if (b.signature.a_transposed, b.signature.b_transposed) == ways]
    bare = [buffers.bare[stage] for buffers in sets]
    return {
        _named(stage, f"{BARE}{b.schedule}"): (record(referee, f"bare-{stage}-{b.key}", b, bare), len(sets))
        for b in fit
    }


def _named(stage: str, contestant: str) -> str:
    return f"{stage}: {contestant}" if stage else contestant


def _together(task: Task, measured: dict[str, list[float]]) -> dict[str, list[float]]:
    """With what a program's bare products take together: by cuBLAS, and each by the faster of template and cuBLAS."""
    if not isinstance(task, ProgramTask):
        return measured
    by_stage = {s: {n: t for n, t in measured.items() if n.startswith(f"{s}: ")} for s in task.parts}
    best = [min(found.values(), key=statistics.median) for found in by_stage.values()]
    return {
        **measured,
        CUBLAS: [sum(times) for times in zip(*(by_stage[s][_named(s, CUBLAS)] for s in by_stage), strict=True)],
        f"{BARE}products": [sum(times) for times in zip(*best, strict=True)],
    }


def _bare(measured: dict[str, list[float]]) -> str:
    """The bare GEMM that the tax is taken against: the faster of template and cuBLAS."""
    return min((n for n in measured if n == CUBLAS or n.startswith(BARE)), key=lambda n: statistics.median(measured[n]))


def _race(
    referee: Referee,
    job: Job,
    workload: Workload,
    sets: list[BufferSet],
    contestants: dict[str, tuple[Replay, int]],
    watch: nvml.Watch,
) -> dict[str, list[float]]:
    """Milliseconds by contestant and round; some of the kernel's turns are checked."""
    sample = Sample(sets)
    turns = 0
    empties: dict[str, list[float]] = {}
    others = nvml.others(_own(referee))

    def after(name: str) -> None:
        nonlocal turns
        if name != "kernel":
            return
        sample.offer()
        if turns % 2:
            watch.look()
        turns += 1

    def enough(measured: dict[str, list[float]]) -> bool:
        times = _together(job.task, measured)
        against = [_bare(times), *(name for name in ("eager", "compile") if name in times)]
        return all(spread(times[name], times["kernel"]) <= NARROW for name in against)

    known = referee.asking
    measured = rounds(
        contestants,
        job.rounds,
        0.0,
        before=lambda _: freshen(sets),
        after=after,
        warm_s=WARM_S,
        budget_s=BUDGET_S,
        enough=enough,
        patience_s=PATIENCE_S,
        trusted=dict.fromkeys(["kernel", *(n for n in contestants if BARE in n)], known) if known else None,
        empties=empties,
    )
    _held_up(workload, empties["eager"], sorted({*others, *nvml.others(_own(referee))}))
    sample.judge(job, workload)
    return _together(job.task, measured)


def _compile(job: Job, sets: list[BufferSet], contestants: dict[str, tuple[Replay, int]]) -> str:
    """Let torch.compile's answer take part; why it cannot, where it cannot."""
    try:
        contestants["compile"] = (baselines.compiled(job.task, sets), len(sets))
    except Exception as error:  # whatever Inductor raises; the kernel is not to blame
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
    return ""


def _agrees(kept: dict[str, dict[str, float]], measured: dict[str, list[float]]) -> bool:
    """Whether the eager reference stands to cuBLAS as it did when torch.compile was measured."""
    now = ratio(measured["eager"], measured["cublas"]).value
    return abs(now / kept["eager"]["value"] - 1) <= baselines.DRIFT


def _row(
    job: Job, workload: Workload, measured: dict[str, list[float]], schedule: str, copy_rate: float, gpu: str
) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in measured.items()}
    bare_name = _bare(measured)
    floor = roofline_ms(job.task, workload, gpu)
    return {
        "workload": workload.model_dump(mode="json"),
        "schedule": schedule,
        "milliseconds": medians,
        "bare": bare_name,
        "tax": ratio(measured["kernel"], measured[bare_name]).data(),
        "over_eager": ratio(measured["eager"], measured["kernel"]).data(),
        "sol": floor / medians["kernel"],
        "roofline_ms": floor,
        "unfused_roofline_ms": medians[bare_name] + 1e3 * pointwise_bytes(job.task, workload, job.plain) / copy_rate,
        "rounds": len(measured["kernel"]),
    }


def _disturbed(workload: Workload, row: dict[str, Any]) -> str:
    """What to say of ratios that stayed wide; empty where none did."""
    widths = {key: Interval(**row[key]).width for key in ("tax", "over_eager", "over_compile") if key in row}
    widest = max(widths, key=lambda key: widths[key])
    if widths[widest] <= UNSURE:
        return ""
    return (
        f"something disturbed the GPU at {workload.label}: {widest.replace('_', ' ')} is sure to "
        f"{widths[widest]:.0%} only; judge again when it is quiet"
    )


def _compare_with_compile(
    referee: Referee, job: Job, workload: Workload, measured: dict[str, list[float]], kept: dict, row: dict[str, Any]
) -> None:
    """Fill in the speed-up over torch.compile, measured now or kept, the best baseline and the answer."""
    folder, environment = home(), referee.environment
    over = {"eager": ratio(measured["eager"], measured["kernel"])}
    if "compile" in measured:
        over["compile"] = ratio(measured["compile"], measured["kernel"])
        ratios = {n: ratio(measured[n], measured["cublas"]).data() for n in ("eager", "compile")}
        baselines.keep(folder, environment, job.task, workload, ratios)
        row["compile_baseline"] = "measured"
    elif kept:
        now, then = ratio(measured["cublas"], measured["kernel"]), kept["over_cublas"]["compile"]
        over["compile"] = Interval(now.value * then["value"], now.low * then["low"], now.high * then["high"])
        row["milliseconds"]["compile"] = then["value"] * row["milliseconds"]["cublas"]
        baselines.keep(folder, environment, job.task, workload, kept["over_cublas"], kept["uses"] + 1)
        row["compile_baseline"] = "kept from before; the eager reference, measured now, stands to cuBLAS as it did then"
    if "compile" in over:
        row["over_compile"] = over["compile"].data()
    best = min(over, key=lambda name: over[name].value)
    row["best_baseline"] = best
    row["answer"] = "faster" if over[best].low > 1 else "slower" if over[best].high < 1 else "undecided"


def _held_up(workload: Workload, empties: list[float], others: list[int]) -> None:
    """Raises NotAlone where others use the GPU so much that the referee's own empty calls wait for it."""
    usual, least = statistics.median(empties), min(empties)
    if others and usual > HELD_UP * least:
        raise NotAlone(
            f"While {workload.label} was timed, other processes computed on this GPU ({', '.join(map(str, others))}), "
            f"and a call that does nothing took {1e3 * usual:.3f} ms instead of {1e3 * least:.3f} ms; "
            "judge again when it is free"
        )


def _too_fast(workload: Workload, milliseconds: float, floor: float, others: list[int]) -> None:
    """Raises Refused; where others compute on the GPU too, NotAlone, for their turns move the clock as well."""
    below = (
        f"On {workload.label} a call took {milliseconds:.4f} ms, and the hardware needs {floor:.4f} ms for the work; "
        "the time cannot be right"
    )
    if others:
        raise NotAlone(
            f"{below}, and other processes compute on this GPU ({', '.join(map(str, others))}); "
            "judge again when it is free"
        )
    raise Refused(Finding(code="below-roofline", message=f"{below}."))


def _copy_rate() -> float:
    """Bytes a second that a device copy reads and writes."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    replay = baselines.recorded([lambda: target.copy_(source)])
    measured = rounds({"copy": (replay, 1)}, 5, 4.0)
    return 2 * source.numel() / (1e-3 * statistics.median(measured["copy"]))
