"""The values: every gated schedule on every workload, against float64, within the unfused path's own error.

The kernel runs before the reference exists, on outputs filled with NaN, three times; its outputs are copied
away, then compared.  What it did beside computing is looked at in the same pass: bytes beyond the tensors,
inputs changed, outputs left unwritten, bits that differ from run to run, operands that do not matter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from random import Random
from typing import TYPE_CHECKING, Any

import torch

from ..tasks import Workload, oracle
from ..tasks.blocks import whole
from .buffers import BufferSet, bits, place
from .job import Chain, Job, Object, Refused
from .memory import enough_memory
from .patterns import diagnose
from .shapes import drawn
from .tolerance import Errors, exact_outputs, judge_runs
from .tune import bind
from .verdict import Finding, StageResult

if TYPE_CHECKING:
    from .referee import Referee

RUNS = 3
DRAWN = 2
"""Workloads of sizes that are drawn with the seed, so that no kernel can be right only on the sizes that it knows."""


def check(referee: Referee, job: Job) -> list[StageResult]:
    """Both stages, numerics and guards. Raises Refused with the first fault."""
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    worst = 0.0
    items = [item for item in job.candidate if item.schedule in job.gated]
    seen: dict[str, int] = {"runs": 0, "workloads": 0}
    unforeseen = drawn(job.task, job.storage, DRAWN, Random(job.seed))
    for workload in [*job.checked, *unforeseen, *job.timed]:
        seeded = workload.model_copy(update={"seed": job.seed + workload.seed + 104729})
        with enough_memory(job.task, workload):
            judged = _judged(referee, job, items, seeded, seen)
        for schedule, found in judged.items():
            errors = [{"output": name, **asdict(one)} for name, one in found.items()]
            rows.append({"workload": workload.model_dump(mode="json"), "schedule": schedule, "errors": errors})
            worst = max(worst, *map(_share, found.values()))
        seen["workloads"] += 1
        job.say("numerics", f"{workload.label} {workload.family}: {worst:.2f} of the bound at worst so far")
    with enough_memory(job.task, job.checked[0]):
        sensitive = _sensitivity(referee, job, items[0])
    spent = time.perf_counter() - started
    numerics = StageResult(
        stage="numerics",
        outcome="passed",
        seconds=spent,
        note=f"{len(items)} schedules on {seen['workloads']} workloads, {worst:.2f} of the bound at worst",
        data={"workloads": rows, "worst": worst},
    )
    guards = StageResult(
        stage="guards",
        outcome="passed",
        note=f"{seen['runs']} runs: bit-equal, inputs kept, nothing beyond the tensors; "
        f"sensitive to {', '.join(sensitive)}",
        data={"runs": seen["runs"], "sensitive": sensitive, "deterministic": True},
    )
    return [numerics, guards]


def _judged(
    referee: Referee, job: Job, items: Sequence[Object | Chain], workload: Workload, seen: dict[str, int]
) -> dict[str, dict[str, Errors]]:
    """What each schedule's outputs err, by schedule and output. Raises Refused for the first that errs too much."""
    (buffers,) = place(referee.arena, job.task, workload, 1)
    answers = {item.schedule: _run(referee, job, item, buffers, workload, seen) for item in items}
    inputs = buffers.drawn()  # not what lies in the shared block, where an object could write at any time
    exact = (
        exact_outputs(job.task, job.graph, inputs)
        if job.graph is not None and workload.family == "integers"
        else frozenset()
    )
    judged = judge_runs(job.task, inputs, answers, exact=exact)
    for schedule, found in judged.items():
        for name, one in found.items():
            if not one.ok:
                truth = whole(job.task, inputs, name)
                _refuse(job, schedule, workload, name, answers[schedule][name], truth, one)
    return judged


def _run(
    referee: Referee, job: Job, item: Object | Chain, buffers: BufferSet, workload: Workload, seen: dict[str, int]
) -> dict[str, torch.Tensor]:
    """Launch RUNS times; returns copies of the outputs. Raises Refused where a guard is hurt."""
    before = {n: v.clone() for n, v in buffers.inputs.items() if isinstance(v, torch.Tensor)}
    (call,) = bind(referee, f"check-{item.key}", item, [buffers])
    first: dict[str, torch.Tensor] = {}
    differs: str | None = None
    for _ in range(RUNS):
        buffers.poison()
        for name in job.task.accumulates:
            buffers.outputs[name].copy_(before[name])
        torch.cuda.synchronize()
        referee.runner.call("launch", calls=[call])
        seen["runs"] += 1
        copies = {n: t.clone() for n, t in buffers.outputs.items()}
        first = first or copies
        differs = differs or next((n for n, t in copies.items() if not torch.equal(bits(t), bits(first[n]))), None)
    kept = {n: t for n, t in before.items() if n not in job.task.accumulates}
    changed = next((n for n, t in kept.items() if not torch.equal(bits(buffers.inputs[n]), bits(t))), None)
    where = f"{item.schedule} on {workload.label} ({workload.family})"
    guard(referee.arena.overrun(), changed, differs, where)
    for name in job.task.accumulates:
        buffers.inputs[name].copy_(before[name])
    referee.runner.call("forget")
    return first


def _share(found: Errors) -> float:
    """How much of the bound an output's error takes."""
    shares = [e / b for e, b in ((found.kernel_max, found.bound_max), (found.kernel_rms, found.bound_rms)) if b > 0]
    return max(shares, default=0.0)


def _refuse(
    job: Job, schedule: str, workload: Workload, name: str, actual: torch.Tensor, truth: torch.Tensor, found: Errors
) -> None:
    details = diagnose(name, actual, truth, job.task, tolerance=found.bound_max)
    pattern = details.get("pattern") or "no known pattern"
    raise Refused(
        Finding(
            code="wrong-values",
            message=(
                f"The output {name} is wrong on {workload.label} ({workload.family}) with {schedule}: {found}; "
                f"{pattern}."
            ),
            remedy="Compare the formula with the reference for this output.",
            output=name,
            details={"schedule": schedule, "workload": workload.model_dump(mode="json"), **details, **asdict(found)},
        )
    )


def guard(beyond: str | None, changed: str | None, differs: str | None, where: str) -> None:
    """Raise Refused for what runs have done beside computing, causes before effects: outputs differ because a write
    reached where it should not, or changed what the next run reads.

    beyond: a tensor beyond which was written. changed: an input. differs: an output. None where there is none.
    """
    if beyond:
        _guard("guard-out-of-bounds", f"The kernel wrote beyond {beyond} ({where}).", None)
    if changed:
        _guard("guard-input-changed", f"The kernel changed its input {changed} ({where}).", None)
    if differs:
        message = f"The output {differs} differs from run to run on the same inputs ({where})."
        _guard("guard-run-to-run", message, differs)


def _guard(code: str, message: str, output: str | None) -> None:
    raise Refused(Finding(code=code, message=message, output=output))


def _sensitivity(referee: Referee, job: Job, item: Object | Chain) -> list[str]:
    """Redraw each input alone: some output must change where the reference's does."""
    workload = job.checked[0].model_copy(update={"seed": job.seed + 15485863})
    (buffers,) = place(referee.arena, job.task, workload, 1)
    (call,) = bind(referee, f"sense-{item.key}", item, [buffers])
    base = _outputs(referee, job, buffers, call)
    base_truth = oracle(job.task, buffers.inputs)
    sensitive = []
    for name, tensor in job.task.tensors.items():
        original = buffers.inputs[name]
        if not isinstance(original, torch.Tensor) or name in job.task.accumulates:
            continue
        kept = original.clone()
        if tensor.is_index or original.numel() > 1:
            flat = bits(original)
            flat.copy_(flat.roll(original[0].numel()))  # the rows by one
        else:
            original.copy_(original + 1)
        changed = _outputs(referee, job, buffers, call)
        truth = oracle(job.task, buffers.inputs)
        moved = any(not torch.equal(truth[n].to(base[n].dtype), base_truth[n].to(base[n].dtype)) for n in truth)
        followed = any(not torch.equal(bits(changed[n]), bits(base[n])) for n in changed)  # NaN is like itself
        original.copy_(kept)
        if moved and not followed:
            _guard(
                "guard-insensitive",
                f"The input {name} makes no difference to the kernel's outputs, and it should.",
                None,
            )
        if followed:
            sensitive.append(name)
    return sensitive


def _outputs(referee: Referee, job: Job, buffers: BufferSet, call: str) -> dict[str, torch.Tensor]:
    kept = {n: buffers.inputs[n].clone() for n in job.task.accumulates}
    buffers.poison()
    torch.cuda.synchronize()
    referee.runner.call("launch", calls=[call])
    copies = {n: t.clone() for n, t in buffers.outputs.items()}
    for name, tensor in kept.items():
        buffers.inputs[name].copy_(tensor)
    return copies
