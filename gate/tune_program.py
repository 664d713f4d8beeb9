"""Which schedules of a program's products to gate: those of each stage race on what the stages before it left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch

from ..tasks import ProgramTask, Workload
from .job import Chain, Job, Object
from .tune import MOST_GATED, bind_formula, prepare, race
from .verdict import StageResult, key_of

if TYPE_CHECKING:
    from .referee import Referee

Times = dict[str, dict[str, float]]
"""Milliseconds by stage and schedule."""


def tune_program(referee: Referee, job: Job, task: ProgramTask) -> list[StageResult]:
    """Time every schedule of every product on every workload; the job's candidates become chains of the winners.

    There is a chain of each workload's best, and further ones until each winner is in one.  Data: milliseconds by
    workload and chain, stages: by workload, stage and schedule; gated: the winners' names.
    """
    objects = {stage: [o for o in job.candidate if isinstance(o, Object) and o.stage == stage] for stage in task.parts}
    tuned = {w.label: _times(referee, job, task, objects, w) for w in job.timed}
    gated = {
        stage: winners([o.schedule for o in items], [times[stage] for times in tuned.values()])
        for stage, items in objects.items()
    }
    picks = chains(gated, list(tuned.values()))
    by_name = {stage: {o.schedule: o for o in items} for stage, items in objects.items()}
    job.candidate = [Chain(task, {stage: by_name[stage][name] for stage, name in pick.items()}) for pick in picks]
    job.gated = [chain.schedule for chain in job.candidate]
    job.tuned = {
        label: {
            chain.schedule: sum(times[stage][name] for stage, name in pick.items())
            for chain, pick in zip(job.candidate, picks, strict=True)
        }
        for label, times in tuned.items()
    }
    data: dict[str, Any] = {
        "milliseconds": job.tuned,
        "stages": tuned,
        "gated": [key_of(stage, name) for stage, names in gated.items() for name in names],
    }
    note = "; ".join(f"{stage} {', '.join(names)}" for stage, names in gated.items())
    return [StageResult(stage="tune", outcome="passed", note=note, data=data)]


def winners(names: list[str], tuned: list[dict[str, float]]) -> list[str]:
    """Of each workload's times by schedule, the fastest; at most MOST_GATED, the most useful first."""
    if not tuned:
        return names[:MOST_GATED]
    loss = {n: sum(times[n] / min(times.values()) for times in tuned) for n in names}
    found = [min(names, key=lambda n: loss[n])]
    for times in tuned:
        best = min(times, key=lambda n: times[n])
        # A schedule is worth shipping where it gains more than the clock's noise.
        if best not in found and times[best] < 0.99 * min(times[w] for w in found):
            found.append(best)
    return found[:MOST_GATED]


def chains(gated: dict[str, list[str]], tuned: Sequence[Times]) -> list[dict[str, str]]:
    """Choices of one schedule a stage: each workload's best, then more until every gated schedule is in one."""
    picks = [{stage: _best(names, times[stage]) for stage, names in gated.items()} for times in tuned]
    left = [[n for n in names if not any(p[stage] == n for p in picks)] for stage, names in gated.items()]
    for row in zip_longest(*left):
        picks.append({stage: name or names[0] for (stage, names), name in zip(gated.items(), row, strict=True)})
    return [pick for i, pick in enumerate(picks) if pick not in picks[:i]]


def _best(names: list[str], times: dict[str, float]) -> str:
    return min(names, key=lambda name: times[name])


def _times(
    referee: Referee, job: Job, task: ProgramTask, objects: dict[str, list[Object]], workload: Workload
) -> Times:
    sets = prepare(referee, job, workload)
    times: Times = {}
    for step in task.program({}, workload.sizes).stages:
        if step.kind == "gemm":
            times[step.name] = race(referee, objects[step.name], sets)
            best = min(times[step.name].items(), key=lambda pair: pair[1])
            job.say("tune", f"{workload.label} {step.name}: {best[0]} {best[1]:.3f} ms")
        else:
            calls = [f"tune-{step.name}-{number}" for number in range(len(sets))]
            for call, buffers in zip(calls, sets, strict=True):
                bind_formula(referee, call, step, buffers)
            torch.cuda.synchronize()  # of a first stage nothing else waits for what was laid out
            referee.runner.call("launch", calls=calls)
        referee.runner.call("forget")
    return times
