"""Times by the referee's own clock, from differences between n and 2n repetitions.

The same way for every contestant: calls over rotating buffers are recorded once as a CUDA graph, and the
wall time of replaying it n and 2n times is taken until the GPU is idle.  What starting, asking and waiting
cost is in both and falls out of the difference.  Contestants take turns in rounds, so that a drift of
clocks or temperature meets all of them alike.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Replay = Callable[[int], None]
"""Replay the recorded calls so many times and wait until they are done."""


@dataclass(frozen=True)
class Interval:
    """A ratio with its bootstrap 95 % interval."""

    value: float
    low: float
    high: float

    def data(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


def once(replay: Replay, calls: int, times: int) -> float:
    """Milliseconds a call."""
    started = time.perf_counter()
    replay(times)
    middle = time.perf_counter()
    replay(2 * times)
    ended = time.perf_counter()
    return max(1e3 * ((ended - middle) - (middle - started)) / (times * calls), 1e-6)


def repetitions(replay: Replay, calls: int, target_ms: float) -> int:
    """How often to replay so that n repetitions take about target_ms; also warms up."""
    replay(1)
    started = time.perf_counter()
    replay(2)
    spent = 1e3 * (time.perf_counter() - started) / 2
    return max(1, min(2000, round(target_ms / max(spent, 1e-3))))


def rounds(contestants: dict[str, tuple[Replay, int]], count: int, target_ms: float) -> dict[str, list[float]]:
    """Milliseconds a call, by contestant and round; the order changes from round to round."""
    times = {name: repetitions(replay, calls, target_ms) for name, (replay, calls) in contestants.items()}
    results: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    shuffle = random.Random(0)
    for _ in range(count):
        shuffle.shuffle(order)
        for name in order:
            replay, calls = contestants[name]
            results[name].append(once(replay, calls, times[name]))
    return results


def ratio(numerator: list[float], denominator: list[float], draws: int = 2000) -> Interval:
    """Median over rounds of the ratio within a round, with a bootstrap interval over rounds."""
    ratios = [n / d for n, d in zip(numerator, denominator, strict=True)]
    source = random.Random(len(ratios))
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(draws))
    return Interval(statistics.median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws)])
