"""Sizes that nobody could have prepared for: drawn by the referee when it judges, beside the declared ones."""

from __future__ import annotations

import math
from random import Random

from ..tasks import Task, Workload, legal
from ..tasks.domain import symbol_step
from ..tasks.workload import FAMILIES

WIDEST = 900
"""Elements by which a dimension may exceed that of the small workload that it starts from."""


def drawn(task: Task, storage: str, count: int, dice: Random) -> list[Workload]:
    """Small legal workloads, each one of the task's own made larger at random; rows by any number, widths by eights."""
    bases = task.correctness_workloads(storage)  # type: ignore[arg-type]
    made: list[Workload] = []
    for _ in range(20 * count):
        sizes = dict(dice.choice(bases).sizes)
        for symbol in sizes:
            every = [t for t in (*task.tensors.values(), *task.outputs.values())]
            factors = [d.coefficient for t in every for d in t.dimensions if d.symbol == symbol] or [1]
            last = any(t.dimensions and len(t.dimensions) > 1 and t.dimensions[-1].symbol == symbol for t in every)
            step = symbol_step(task, symbol, storage)
            unit = math.lcm(step, 8 // math.gcd(8, min(factors))) if last else step
            sizes[symbol] += unit * dice.randint(0, max(WIDEST // (unit * max(factors)), 1))
        if legal(task, sizes, storage) is None:
            values = {
                "sizes": sizes,
                "storage": storage,
                "family": dice.choice(FAMILIES),
                "seed": dice.randrange(2**20),
            }
            made.append(Workload.model_validate(values))
        if len(made) == count:
            break
    return made
