"""Which of two contestants is better, and how sure that is. Pure functions on rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from pydantic import BaseModel, ConfigDict

from .intervals import Estimate, holm, mean, sign_flip
from .rows import Row

SIGNIFICANT = 0.05


class Pair(BaseModel):
    """Two contestants on the tasks that both have rows of."""

    model_config = ConfigDict(frozen=True)

    first: str
    second: str
    tasks: int
    difference: Estimate
    """first over second: the ratio of geometric-mean speed-ups, unsolved tasks as 1.0; without a GPU, the difference of
    the shares checked."""
    p: float
    """Two-sided sign-flip permutation test over tasks."""
    p_corrected: float
    """The same, corrected for all pairs of the table (Holm)."""


def headline(row: Row, cpu_only: bool) -> float:
    """What contestants are compared by: the speed-up, 1.0 where unsolved; without a GPU, 1 if checked and else 0."""
    if cpu_only:
        return float(row.checked)
    return row.speedup if row.solved and row.speedup else 1.0


def compare(by: Mapping[str, Sequence[Row]], cpu_only: bool) -> list[Pair]:
    """Every pair of contestants, each on the tasks that both have rows of. by: rows by label."""
    found: dict[tuple[str, str], tuple[int, Estimate, float]] = {}
    for first, second in combinations(sorted(by), 2):
        one, two = _task_values(by[first], cpu_only), _task_values(by[second], cpu_only)
        differences = [one[t] - two[t] for t in sorted(one.keys() & two.keys())]
        estimate = mean([[d] for d in differences])
        if estimate is not None:
            if not cpu_only:
                ends = {k: math.exp(getattr(estimate, k)) for k in ("value", "low", "high")}
                estimate = estimate.model_copy(update=ends)
            found[first, second] = len(differences), estimate, sign_flip(differences)
    corrected = holm({names: p for names, (_, _, p) in found.items()})
    return [
        Pair(first=a, second=b, tasks=n, difference=d, p=p, p_corrected=corrected[a, b])
        for (a, b), (n, d, p) in found.items()
    ]


def _task_values(rows: Sequence[Row], cpu_only: bool) -> dict[str, float]:
    """A number a task: the mean over samples of the headline, of its logarithm where that is a speed-up."""
    values = {t[0].task: [headline(r, cpu_only) for r in t] for t in by_task(rows)}
    return {k: statistics.fmean(v if cpu_only else map(math.log, v)) for k, v in values.items()}


def rank_ranges(labels: Sequence[str], pairs: Sequence[Pair], cpu_only: bool) -> dict[str, tuple[int, int]]:
    """Each contestant's best and worst possible rank: only significant differences count."""
    better, worse = dict.fromkeys(labels, 0), dict.fromkeys(labels, 0)
    for pair in pairs:
        if pair.p_corrected < SIGNIFICANT:
            first_wins = pair.difference.value > (0.0 if cpu_only else 1.0)
            winner, loser = (pair.first, pair.second) if first_wins else (pair.second, pair.first)
            better[loser] += 1
            worse[winner] += 1
    return {name: (1 + better[name], len(labels) - worse[name]) for name in labels}


def by_task(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows by task, in the order of names and samples: equal rows give equal numbers in whatever order they came."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r.task, r.sample)):
        found.setdefault(row.task, []).append(row)
    return list(found.values())
