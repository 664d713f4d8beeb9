"""Timed turns, drawn by lot, whose outputs are compared with the reference once all is timed.

The inputs to compare with are drawn anew, outside the shared block: what a hostile object writes over those inside
it changes nothing that is expected of it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import torch

from ..tasks import Workload
from .buffers import BufferSet, bits
from .job import Job, Refused
from .tolerance import judge_runs
from .verdict import Finding

CHECKED_TURNS = 4
"""Of one candidate and workload, warming up included."""
KEPT_BYTES = 4 * 2**30
"""What is kept of them at most: of larger outputs fewer turns, but one at least."""


@dataclass(frozen=True)
class Turn:
    """What one turn left in one set of buffers, copied as soon as it was said to be done."""

    buffers: BufferSet
    moved: dict[str, int]
    outputs: dict[str, torch.Tensor]


class Sample:
    """CHECKED_TURNS of all turns, each as likely as any other however many come: none is safe from being looked at.

    They are judged when all is timed, so that nobody learns when looking has ended.
    """

    def __init__(self, sets: list[BufferSet]):
        self.sets, self.offered = sets, 0
        size = sum(t.numel() * t.element_size() for t in sets[0].outputs.values())
        self.most = max(1, min(CHECKED_TURNS, KEPT_BYTES // max(size, 1)))
        self.taken: list[Turn] = []

    def offer(self) -> None:
        self.offered += 1
        place = secrets.randbelow(self.offered)
        if len(self.taken) < self.most:
            self.taken.append(self._copied())
        elif place < self.most:
            del self.taken[place]  # first, so that there is never one too many
            self.taken.append(self._copied())

    def _copied(self) -> Turn:
        buffers = secrets.choice(self.sets)
        return Turn(buffers, dict(buffers.moved), {n: t.clone() for n, t in buffers.outputs.items()})

    def judge(self, job: Job, workload: Workload) -> None:
        """Raises Refused."""
        for turn in self.taken:
            _still_right(job, turn, workload)


def _still_right(job: Job, turn: Turn, workload: Workload) -> None:
    """What a timed turn left behind must be as right as what was checked before, for the inputs that it was given."""
    inputs = turn.buffers.drawn(turn.moved)
    for name, found in judge_runs(job.task, inputs, {"": turn.outputs})[""].items():
        if not found.ok:
            raise Refused(
                Finding(
                    code="timed-output-wrong",
                    message=f"After a timed turn on {workload.label} the output {name} is wrong: "
                    f"error {found.kernel_max:.3g}, "
                    f"where {found.bound_max:.3g} is allowed; the timed calls did not do the work.",
                    output=name,
                )
            )
    for name, value in turn.buffers.drawn().items():
        if not isinstance(value, torch.Tensor) or name in job.task.accumulates:
            continue
        if not torch.equal(bits(turn.buffers.inputs[name]), bits(value.contiguous())):
            raise Refused(
                Finding(
                    code="timed-input-changed",
                    message=f"The kernel changed its input {name} while it was timed on {workload.label}.",
                )
            )
