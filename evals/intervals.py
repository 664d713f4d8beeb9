"""Intervals and comparisons: bootstrap over tasks and samples, and paired tests. Pure, and the same each time.

Tasks are the sample from the population of fusions that one would like to know about, so they are drawn again with
replacement; within each, its samples are too.  Every generator is seeded, so equal rows give equal numbers.
Plain percentiles are too narrow for few tasks, as a kind of task has; they are taken further out (`_quantiles`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from statistics import NormalDist
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

RESAMPLES = 2000
PERMUTATIONS = 20_000
EXACT_UP_TO = 14
"""Tasks, for which all sign flips are tried."""

Values = Sequence[Sequence[float]]
"""For each task, its samples' values."""


class Estimate(BaseModel):
    """A number with its 95 % bootstrap interval."""

    model_config = ConfigDict(frozen=True)

    value: float
    low: float
    high: float
    tasks: int
    """How many tasks it rests on."""


class Cost(BaseModel):
    """A cost of each success, with its 95 % bootstrap interval."""

    model_config = ConfigDict(frozen=True)

    value: float
    low: float | None
    high: float | None
    """None for an end without bound: resamples without any success are too many."""
    tasks: int


def mean(values: Values, kind: Literal["mean", "geometric"] = "mean") -> Estimate | None:
    """The mean over tasks of the mean over samples; of logarithms, for the geometric mean. Tasks without samples are
    left out; None where none is left."""
    values = [v for v in values if len(v)]
    if not values:
        return None
    table = _table(values)
    if kind == "geometric":
        table = np.log(table)
    centre = np.nanmean(table, axis=1).mean()
    low, high = _quantiles(np.nanmean(_resampled(table), axis=2).mean(axis=1), len(values))
    ends = (centre, low, high)
    first, second, third = (math.exp(x) for x in ends) if kind == "geometric" else map(float, ends)
    return Estimate(value=first, low=second, high=third, tasks=len(values))


def share(values: Values) -> Estimate | None:
    """The mean of zeros and ones (or of chances).

    Where all tasks agree on 0 or on 1 a bootstrap sees no doubt; the far end is then that of the exact binomial
    interval for as many tasks (Clopper and Pearson 1934).
    """
    found = mean(values)
    if found is None:
        return None
    edge = 0.025 ** (1 / found.tasks)
    if found.low == found.high == 1.0:
        return found.model_copy(update={"low": edge})
    if found.low == found.high == 0.0:
        return found.model_copy(update={"high": 1.0 - edge})
    return found


def ratio(costs: Values, gains: Values) -> Cost | None:
    """All costs over all gains, such as dollars a kernel; None where nothing was gained."""
    pairs = [(c, g) for c, g in zip(costs, gains, strict=True) if len(c)]
    if not pairs or not sum(sum(g) for _, g in pairs):
        return None
    cost, gain = _table([c for c, _ in pairs]), _table([g for _, g in pairs])
    above, below = (np.nansum(_resampled(t), axis=(1, 2)) for t in (cost, gain))
    with np.errstate(divide="ignore", invalid="ignore"):
        resamples = np.where(below > 0, above / below, np.inf)
    low, high = _quantiles(resamples, len(pairs), method="nearest")
    value = float(np.nansum(cost) / np.nansum(gain))
    ends = {"low": low if math.isfinite(low) else None, "high": high if math.isfinite(high) else None}
    return Cost(value=value, tasks=len(pairs), **ends)


def pass_at(counts: Sequence[tuple[int, int]], k: int) -> Estimate | None:
    """pass@k from (samples, passed) of each task: the chance that one of k samples passes, unbiased.

    Chen et al. 2021, arXiv 2107.03374: 1 - C(n - c, k) / C(n, k), averaged over the tasks with at least k samples.
    The interval is over tasks alone: samples drawn again with replacement would repeat, and k of them pass less often.
    """
    chances = [1.0 - math.comb(n - c, k) / math.comb(n, k) for n, c in counts if n >= k]
    return share([[c] for c in chances])


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of a paired difference: how often random signs give a mean as far from zero.

    differences: one a task. Exact for up to 14 tasks, else 20,000 random flips. 1.0 without any difference.
    """
    values = np.asarray([d for d in differences if d], dtype=float)
    if not values.size:
        return 1.0
    observed = abs(values.sum()) - 1e-12 * np.abs(values).sum()
    if values.size <= EXACT_UP_TO:
        signs = np.array(list(product((1.0, -1.0), repeat=values.size)))
        return float((np.abs(signs @ values) >= observed).mean())
    signs = np.random.default_rng(0).choice((1.0, -1.0), size=(PERMUTATIONS, values.size))
    return float((1 + (np.abs(signs @ values) >= observed).sum()) / (1 + PERMUTATIONS))


def holm(p_values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """The p-values of several comparisons made together, corrected (Holm 1979)."""
    found: dict[tuple[str, str], float] = {}
    worst = 0.0
    for rank, (pair, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, p * (len(p_values) - rank)))
        found[pair] = worst
    return found


def _table(values: Values) -> np.ndarray:
    """Tasks by samples, padded with NaN."""
    table = np.full((len(values), max(map(len, values))), np.nan)
    for row, samples in zip(table, values, strict=True):
        row[: len(samples)] = samples
    return table


def _resampled(table: np.ndarray) -> np.ndarray:
    """Resamples by tasks by samples; NaN beyond the samples that a task has."""
    counts = (~np.isnan(table)).sum(axis=1)
    tasks, samples = _draws(tuple(counts.tolist()), RESAMPLES)
    beyond = np.arange(table.shape[1]) >= counts[tasks][:, :, None]
    return np.where(beyond, np.nan, table[tasks[:, :, None], samples])


@lru_cache(8)
def _draws(counts: tuple[int, ...], resamples: int) -> tuple[np.ndarray, np.ndarray]:
    """For each resample, which tasks, and of each which of its samples; the same for all values of a set of rows."""
    generator = np.random.default_rng(0)
    tasks = generator.integers(0, len(counts), size=(resamples, len(counts)))
    uniform = generator.random((resamples, len(counts), max(counts)))
    return tasks, np.floor(uniform * np.asarray(counts)[tasks][:, :, None]).astype(int)


def _quantiles(values: np.ndarray, tasks: int, method: Literal["linear", "nearest"] = "linear") -> tuple[float, float]:
    """The ends of a 95 % interval from resamples of so many tasks.

    Expanded percentiles (Hesterberg 2015, arXiv 1411.5279): as a t interval is wider than a normal one, and by the
    factor that a bootstrap's spread is too small.
    """
    freedom, z = max(tasks - 1, 1), NormalDist().inv_cdf(0.975)
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)  # of Student, nearly
    tail = NormalDist().cdf(-t * math.sqrt((freedom + 1) / freedom))
    low, high = np.quantile(values, (tail, 1 - tail), method=method)
    return float(low), float(high)
