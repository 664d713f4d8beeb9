"""What a verdict's stages measured, in the record's form."""

from __future__ import annotations

from ..gate.verdict import Verdict
from ..tasks import Task
from .record import Best, Numerics, WorkloadEvidence


def workloads_of(verdict: Verdict) -> tuple[WorkloadEvidence, ...]:
    return ()


def best_of(verdict: Verdict) -> tuple[Best, ...]:
    return ()


def numerics_of(verdict: Verdict, task: Task) -> Numerics:
    return Numerics(bound="")
