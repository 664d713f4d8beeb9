"""The times: candidate, bare GEMM and baselines in turn, by the referee's clock; a measurement, not a judgement.

Refuses only what cannot be: a time below the hardware's own roofline, or timed outputs that are wrong.
"""

from __future__ import annotations

import math
import secrets
import statistics
from typing import TYPE_CHECKING, Any

import torch

from ..tasks import Workload, oracle, unfused
from . import baselines
from .buffers import BufferSet
from .job import Job, Object, Refused
from .machine import gpu_state
from .roofline import pointwise_bytes, roofline_ms
from .stopwatch import Replay, ratio, rounds
from .tolerance import judge
from .tune import prepare, record
from .verdict import Finding, StageResult

if TYPE_CHECKING:
    from .referee import Referee

TARGET_MS = 30.0
HEATS = 3  # rounds in which the bare template's schedules race for their place
BELOW = 0.97  # of the roofline: less is a broken measurement


def measure(referee: Referee, job: Job) -> list[StageResult]:
    """Time every declared workload. Raises Refused for a time that cannot be."""
    copy_rate = _copy_rate()
    before = gpu_state()
    rows = [_one(referee, job, workload, copy_rate) for workload in job.timed]
    after = gpu_state()
    summary = summarise(rows)
    note = f"tax {summary['tax']:.3f}" if summary.get("tax") else "no workload"
    if summary.get("over_compile"):
        note += f", {summary['over_compile']:.2f}x torch.compile"
    data = {
        "workloads": rows,
        "summary": summary,
        "copy_bytes_per_second": copy_rate,
        "gpu_before": before,
        "gpu_after": after,
    }
    return [StageResult(stage="timing", outcome="passed", note=note, data=data)]


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means over workloads."""
    result = {}
    for key in ("tax", "over_eager", "over_compile", "sol"):
        values = [row[key]["value"] if isinstance(row[key], dict) else row[key] for row in rows if row.get(key)]
        if values and len(values) == len(rows):
            result[key] = math.exp(statistics.fmean(map(math.log, values)))
    return result


def _one(referee: Referee, job: Job, workload: Workload, copy_rate: float) -> dict[str, Any]:
    sets = prepare(referee, job, workload, bare=True)
    times = job.tuned[workload.label]
    item = min((i for i in job.candidate if i.schedule in job.gated), key=lambda i: times[i.schedule])
    contestants: dict[str, tuple[Replay, int]] = {"kernel": (record(referee, "kernel", item, sets), len(sets))}
    heats = {f"bare {b.schedule}": (_bare(referee, job, b, sets), len(sets)) for b in job.bare}
    if heats:
        raced = rounds(heats, HEATS, TARGET_MS / 3)
        fastest = min(raced, key=lambda name: statistics.median(raced[name]))
        contestants[fastest] = heats[fastest]
    contestants["cublas"] = (baselines.cublas(job.task, sets), len(sets))
    contestants["eager"] = (baselines.eager(job.task, sets), len(sets))
    failed = ""
    if job.compile_baseline:
        try:
            contestants["compile"] = (baselines.compiled(job.task, sets), len(sets))
        except Exception as error:  # whatever Inductor raises; the kernel is not to blame
            failed = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
    for buffers in sets:
        buffers.poison()
    measured = rounds(contestants, job.rounds, TARGET_MS)
    _still_right(job, sets, workload)
    del contestants
    torch.cuda.empty_cache()
    referee.runner.call("forget")
    medians = {name: statistics.median(values) for name, values in measured.items()}
    bare_name = min((n for n in medians if n == "cublas" or n.startswith("bare ")), key=lambda n: medians[n])
    floor = roofline_ms(job.task, workload, referee.environment["gpu"])
    if medians["kernel"] < BELOW * floor:
        _too_fast(workload, medians["kernel"], floor)
    row: dict[str, Any] = {
        "workload": workload.model_dump(mode="json"),
        "schedule": item.schedule,
        "milliseconds": medians,
        "bare": bare_name,
        "tax": ratio(measured["kernel"], measured[bare_name]).data(),
        "over_eager": ratio(measured["eager"], measured["kernel"]).data(),
        "sol": floor / medians["kernel"],
        "roofline_ms": floor,
        "unfused_roofline_ms": medians[bare_name] + 1e3 * pointwise_bytes(job.task, workload) / copy_rate,
        "rounds": job.rounds,
    }
    best = "eager"
    if "compile" in medians:
        row["over_compile"] = ratio(measured["compile"], measured["kernel"]).data()
        best = min("eager", "compile", key=lambda n: medians[n])
    elif failed:
        row["compile_failed"] = failed
    over = ratio(measured[best], measured["kernel"])
    row["best_baseline"] = best
    row["answer"] = "faster" if over.low > 1 else "slower" if over.high < 1 else "undecided"
    job.say(
        "timing",
        f"{workload.label}: {medians['kernel']:.3f} ms, tax {row['tax']['value']:.3f}, {over.value:.2f}x {best}",
    )
    return row


def _bare(referee: Referee, job: Job, bare: Object, sets: list[BufferSet]) -> Replay:
    """The template without an epilogue, on the same operands."""
    calls = []
    for number, buffers in enumerate(sets):
        calls.append(f"{bare.key}-{number}")
        referee.runner.call(
            "bind",
            call=calls[-1],
            kernel=bare.key,
            inputs={
                "a": buffers.described_inputs[job.task.gemm.a],
                "b": buffers.described_inputs[job.task.gemm.b],
            },
            outputs={"product": buffers.described_bare},
            workspace={},
        )
    referee.runner.call("graph", graph=bare.key, calls=calls)

    def replay(times: int) -> None:
        referee.runner.call("replay", graph=bare.key, times=times)

    return replay


def _still_right(job: Job, sets: list[BufferSet], workload: Workload) -> None:
    """What the timed calls left behind must be as right as what was checked."""
    if job.task.accumulates:
        return  # thousands of timed additions have no reference
    buffers = secrets.choice(sets)  # no kernel can know which of them counts
    truth, plain = oracle(job.task, buffers.inputs), unfused(job.task, buffers.inputs)
    for name, actual in buffers.outputs.items():
        found = judge(actual, truth[name], plain[name], actual.dtype)
        if not found.ok:
            raise Refused(
                Finding(
                    code="timed-output-wrong",
                    message=f"After the timed calls on {workload.label} the output {name} is wrong: "
                    f"error {found.kernel_max:.3g}, "
                    f"where {found.bound_max:.3g} is allowed; the timed calls did not do the work.",
                    output=name,
                )
            )


def _too_fast(workload: Workload, milliseconds: float, floor: float) -> None:
    raise Refused(
        Finding(
            code="below-roofline",
            message=f"On {workload.label} a call took {milliseconds:.4f} ms, and the hardware needs {floor:.4f} ms "
            "for the work; "
            "the time cannot be right.",
        )
    )


def _copy_rate() -> float:
    """Bytes a second that a device copy reads and writes."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    replay = baselines.recorded([lambda: target.copy_(source)])
    measured = rounds({"copy": (replay, 1)}, 3, 10.0)
    return 2 * source.numel() / (1e-3 * statistics.median(measured["copy"]))
