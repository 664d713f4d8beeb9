"""Which of an entry's gated schedules to run: the one that won on the nearest tuned shape."""

from __future__ import annotations

import math
from collections import Counter

from .record import CompiledObject, Evidence


def distance(a: dict[str, int], b: dict[str, int]) -> float:
    """How far two shapes lie apart: the sum over symbols of |log2 of the ratio|."""
    return sum(abs(math.log2(max(a[s], 1) / max(b[s], 1))) for s in a.keys() & b.keys())


def by_shape(evidence: Evidence, sizes: dict[str, int], stage: str = "") -> list[CompiledObject]:
    """A stage's objects, the likely fastest on these sizes first."""
    nearest = sorted(evidence.best, key=lambda best: distance(best.sizes, sizes))
    order = list(dict.fromkeys(best.schedule for best in nearest if best.stage == stage))
    return sorted(_of(evidence, stage), key=lambda o: order.index(o.schedule) if o.schedule in order else len(order))


def pinned(evidence: Evidence, stage: str = "") -> list[CompiledObject]:
    """One object for all shapes: the schedule that won most often, so that a row's bits do not depend on M."""
    wins = Counter(best.schedule for best in evidence.best if best.stage == stage)
    return sorted(_of(evidence, stage), key=lambda o: -wins[o.schedule])[:1]


def _of(evidence: Evidence, stage: str) -> list[CompiledObject]:
    return [o for o in evidence.objects if o.stage == stage]
