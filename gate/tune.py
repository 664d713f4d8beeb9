"""Which schedules to gate: the compiled ones race on every timed workload."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from ..tasks import Workload
from .buffers import BufferSet, place, sets_wanted, workspace
from .job import Job, Object
from .roofline import compulsory_bytes
from .stopwatch import Replay, rounds
from .verdict import StageResult

if TYPE_CHECKING:
    from .referee import Referee

ROUNDS = 3
TARGET_MS = 10.0
MOST_GATED = 4


def tune(referee: Referee, job: Job) -> list[StageResult]:
    """Time every schedule on every workload; keep each workload's winner (and the best overall)."""
    for workload in job.timed:
        sets = prepare(referee, job, workload)
        contestants = {
            item.schedule: (record(referee, f"tune-{item.key}", item, sets), len(sets)) for item in job.candidate
        }
        measured = rounds(contestants, ROUNDS, TARGET_MS)
        job.tuned[workload.label] = {name: statistics.median(times) for name, times in measured.items()}
        best = min(job.tuned[workload.label].items(), key=lambda pair: pair[1])
        job.say("tune", f"{workload.label}: {best[0]} {best[1]:.3f} ms")
        referee.runner.call("forget")
    job.gated = _winners(job)
    best_by_shape = [
        {"sizes": w.sizes, "schedule": min((t, n) for n, t in job.tuned[w.label].items() if n in job.gated)[1]}
        for w in job.timed
    ]
    return [
        StageResult(
            stage="tune",
            outcome="passed",
            note=", ".join(job.gated),
            data={"milliseconds": job.tuned, "gated": job.gated, "best": best_by_shape},
        )
    ]


def _winners(job: Job) -> list[str]:
    """Each workload's fastest; at most MOST_GATED, the most useful first."""
    names = [item.schedule for item in job.candidate]
    if not job.timed:
        return names[:MOST_GATED]
    loss = {n: sum(job.tuned[w.label][n] / min(job.tuned[w.label].values()) for w in job.timed) for n in names}
    overall = min(names, key=lambda n: loss[n])
    winners = [overall]
    for workload in job.timed:
        times = job.tuned[workload.label]
        best = min(times, key=lambda n: times[n])
        # A schedule is worth shipping where it gains more than the clock's noise.
        if best not in winners and times[best] < 0.99 * min(times[w] for w in winners):
            winners.append(best)
    return winners[:MOST_GATED]


def prepare(referee: Referee, job: Job, workload: Workload, *, bare: bool = False, least: int = 0) -> list[BufferSet]:
    """Draw and lay out as many sets as exceed the L2 cache, and `least` where they fit."""
    wanted = max(sets_wanted(compulsory_bytes(job.task, workload)), least)
    seeded = workload.model_copy(update={"seed": job.seed + workload.seed})
    return place(referee.arena, job.task, seeded, wanted, bare=bare)


def bind(referee: Referee, name: str, item: Object, sets: list[BufferSet]) -> list[str]:
    """Bind a kernel to every set; returns the calls' names."""
    calls = []
    for number, buffers in enumerate(sets):
        calls.append(f"{name}-{number}")
        referee.runner.call(
            "bind",
            call=calls[-1],
            kernel=item.key,
            inputs=buffers.described_inputs,
            outputs=buffers.described_outputs,
            workspace=workspace(referee.arena, buffers, item.signature),
        )
    return calls


def record(referee: Referee, name: str, item: Object, sets: list[BufferSet]) -> Replay:
    """Let the runner record one call a set; the result replays them by the referee's command."""
    referee.runner.call("graph", graph=name, calls=bind(referee, name, item, sets))

    def replay(times: int) -> None:
        referee.runner.call("replay", graph=name, times=times)

    return replay
