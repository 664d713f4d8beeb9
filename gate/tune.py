"""Which schedules to gate: the compiled ones race on every timed workload."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..tasks import ProgramTask, Workload
from ..templates.program import Stage
from .buffers import MOST_SETS, BareSet, BufferSet, partials, place, sets_wanted, workspace
from .job import Chain, Job, Object
from .memory import enough_memory
from .roofline import compulsory_bytes, roofline_ms
from .stopwatch import Replay, rounds
from .verdict import StageResult

if TYPE_CHECKING:
    from .referee import Referee

ROUNDS = 5
TURN_MS = 6.0
"""At least, where there is memory for so many sets: short against the board's power control, and so long that what a
busy host adds to a turn, some 50 microseconds, is below 1 %."""
TARGET_MS = 10.0
"""For a program's stages, which race on what the stages before them left."""
MOST_GATED = 4
NEAR = 1.04
"""Times the fastest: what the race may take one schedule's lead over another for."""


def tune(referee: Referee, job: Job) -> list[StageResult]:
    """Time every schedule on every workload; those that may be the fastest of one go on."""
    if isinstance(job.task, ProgramTask):
        from .tune_program import tune_program

        return tune_program(referee, job, job.task)
    for workload in job.timed:
        sets = prepare(referee, job, workload, likely=roofline_ms(job.task, workload, referee.environment["gpu"]))
        job.tuned[workload.label] = race(referee, job.candidate, sets, fresh=True)
        best = min(job.tuned[workload.label].items(), key=lambda pair: pair[1])
        job.say("tune", f"{workload.label}: {best[0]} {best[1]:.3f} ms")
        referee.runner.call("forget")
    job.gated = contenders([item.schedule for item in job.candidate], [job.tuned[w.label] for w in job.timed])
    return [
        StageResult(
            stage="tune",
            outcome="passed",
            note=", ".join(job.gated),
            data={"milliseconds": job.tuned, "gated": job.gated},
        )
    ]


def race(
    referee: Referee, items: Sequence[Object | Chain], sets: list[BufferSet], *, fresh: bool = False
) -> dict[str, float]:
    """Milliseconds by schedule.

    fresh: in turns as those that are timed later, one pass over content that no call has seen.  Kernels that run
    without a pause bring the board to its power limit, and there other schedules win than at the clock of such turns.
    """
    contestants = {item.schedule: (record(referee, f"tune-{item.key}", item, sets), len(sets)) for item in items}
    if fresh:
        measured = rounds(contestants, ROUNDS, 0.0, before=lambda _: freshen(sets))
    else:
        measured = rounds(contestants, ROUNDS, TARGET_MS)
    return {name: statistics.median(times) for name, times in measured.items()}


def freshen(sets: Sequence[BufferSet]) -> None:
    """New content for every set, and all of it there."""
    for buffers in sets:
        buffers.freshen()
    torch.cuda.synchronize()


def contenders(names: list[str], tuned: list[dict[str, float]]) -> list[str]:
    """Of each workload's times by schedule, the fastest and what is near it; at most MOST_GATED, the likeliest first.

    Which of them is the fastest is decided when they are timed, and only what wins there is kept.
    """
    if not tuned:
        return names[:MOST_GATED]
    fastest = {min(times, key=lambda n: times[n]) for times in tuned}
    near = {n for times in tuned for n in names if times[n] <= NEAR * min(times.values())}
    loss = {n: sum(times[n] / min(times.values()) for times in tuned) for n in names}
    return sorted(near, key=lambda n: (n not in fastest, loss[n]))[:MOST_GATED]


def prepare(
    referee: Referee, job: Job, workload: Workload, *, bare: bool = False, likely: float = math.inf
) -> list[BufferSet]:
    """Draw and lay out as many sets as exceed the L2 cache, and as fill a turn where they fit with the kernels'
    workspaces; what is added to is kept, to be restored before each turn.

    likely: milliseconds of a call; without it sets are not counted by turns.
    """
    wanted = max(sets_wanted(compulsory_bytes(job.task, workload)), min(MOST_SETS, math.ceil(TURN_MS / likely)))
    seeded = workload.model_copy(update={"seed": job.seed + workload.seed})
    raced = [item for item in job.candidate if item.schedule in job.gated] or job.candidate
    objects = {o.key: o for item in raced for o in (item.objects.values() if isinstance(item, Chain) else [item])}
    scratch = partials(job.task, workload.sizes, objects.values())
    with enough_memory(job.task, workload):
        sets = place(referee.arena, job.task, seeded, wanted, bare=bare, scratch=scratch)
        for buffers in sets:
            buffers.keep(job.task.accumulates)
    return sets


def bind(referee: Referee, name: str, item: Object | Chain, sets: Sequence[BufferSet | BareSet]) -> list[str]:
    """Bind a kernel, or a program's chain of kernels, to every set; returns the calls' names."""
    return [_bind(referee, f"{name}-{number}", item, buffers) for number, buffers in enumerate(sets)]


def _bind(referee: Referee, call: str, item: Object | Chain, buffers: BufferSet | BareSet) -> str:
    described = buffers.described
    if isinstance(item, Object):
        signature = item.signature
        referee.runner.call(
            "bind",
            call=call,
            kernel=item.key,
            inputs={n: described[n] for n in signature.inputs},
            outputs={n: described[n] for n in signature.outputs},
            workspace=workspace(referee.arena, buffers, signature),
        )
        return call
    assert isinstance(buffers, BufferSet)
    calls = []
    for step in item.task.program({}, buffers.sizes).stages:
        calls.append(f"{call}-{step.name}")
        if step.kind == "gemm":
            _bind(referee, calls[-1], item.objects[step.name], buffers)
        else:
            bind_formula(referee, calls[-1], step, buffers)
    referee.runner.call("chain", call=call, calls=calls)
    return call


def bind_formula(referee: Referee, call: str, step: Stage, buffers: BufferSet) -> None:
    """Bind a program's stage that is no product."""
    tensors = {n: buffers.described[n] for n in (*step.reads, *step.writes)}
    referee.runner.call("formula", call=call, stage=step.model_dump(mode="json"), tensors=tensors)


def record(referee: Referee, name: str, item: Object | Chain, sets: Sequence[BufferSet | BareSet]) -> Replay:
    """Let the runner record one call a set; the result replays them by the referee's command.

    Recording launches each once, so that what lies in the sets, or was copied from them, must be there by then: the
    runner's work does not wait for the referee's.
    """
    torch.cuda.synchronize()
    referee.runner.call("graph", graph=name, calls=bind(referee, name, item, sets))

    def replay(times: int) -> None:
        referee.runner.call("replay", graph=name, times=times)

    return replay
