"""Times by the referee's own clock: the wall time of many repetitions, less that of none.

The same way for every contestant: calls over rotating buffers are recorded once as a CUDA graph, and the
wall time of replaying it until the GPU is idle is taken.  What asking and waiting cost is measured by
replaying nothing, and taken off.  Contestants take turns in rounds of changing order, the first of which only
brings clocks and power to where they stay, so that a drift meets all of them alike.
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


def once(replay: Replay, calls: int, times: int, idle: float) -> float:
    """Milliseconds a call. idle: seconds that replaying nothing takes."""
    started = time.perf_counter()
    replay(times)
    return max(1e3 * (time.perf_counter() - started - idle) / (times * calls), 1e-6)


def overhead(replay: Replay) -> float:
    """Seconds from asking for no repetition to the answer."""
    spent = []
    for _ in range(7):
        started = time.perf_counter()
        replay(0)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def repetitions(replay: Replay, idle: float, target_ms: float) -> int:
    """How often to replay so that it takes about target_ms; also warms up."""
    replay(1)
    started = time.perf_counter()
    replay(2)
    spent = 1e3 * max(time.perf_counter() - started - idle, 1e-6) / 2
    return max(1, min(5000, round(target_ms / spent)))


def rounds(contestants: dict[str, tuple[Replay, int]], count: int, target_ms: float) -> dict[str, list[float]]:
    """Milliseconds a call, by contestant and round; target_ms is what one contestant takes of a round."""
    idle = {name: overhead(replay) for name, (replay, _) in contestants.items()}
    times = {name: repetitions(replay, idle[name], target_ms) for name, (replay, _) in contestants.items()}
    results: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    shuffle = random.Random(0)
    for number in range(count + 1):
        shuffle.shuffle(order)
        for name in order:
            replay, calls = contestants[name]
            spent = once(replay, calls, times[name], idle[name])
            if number:
                results[name].append(spent)
    return results


def ratio(numerator: list[float], denominator: list[float], draws: int = 2000) -> Interval:
    """Median over rounds of the ratio within a round, with a bootstrap interval over rounds."""
    ratios = [n / d for n, d in zip(numerator, denominator, strict=True)]
    source = random.Random(len(ratios))
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(draws))
    return Interval(statistics.median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws)])
