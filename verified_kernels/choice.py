"""Which of an entry's gated schedules to run, the one that won on the nearest tuned shape; and whether to run any."""

from __future__ import annotations

import math
from collections import Counter

from .record import CompiledObject, Evidence, Measure

EAGER, COMPILED = "the unfused reference", "torch.compile of the reference"


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


def faster(evidence: Evidence, sizes: dict[str, int]) -> dict[str, Measure]:
    """Which baselines the gate measured to be faster than the kernel at exactly these sizes, beyond doubt.

    The speed-up over each, whose whole interval lies below 1; of several measurements of one size, the largest.
    """
    timed = [t for w in evidence.workloads if w.workload.sizes == sizes for t in w.timings]
    found = {}
    for name, measures in (
        (EAGER, [t.over_eager for t in timed if t.over_eager]),
        (COMPILED, [t.over_compile for t in timed if t.over_compile]),
    ):
        best = max(measures, key=lambda m: m.value, default=None)
        if best is not None and best.high is not None and best.high < 1:
            found[name] = best
    return found


def _of(evidence: Evidence, stage: str) -> list[CompiledObject]:
    return [o for o in evidence.objects if o.stage == stage]
