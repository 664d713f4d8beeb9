"""Times by the referee's own clock, so taken that what moves the clock meets all contestants alike.

A GPU at its power limit changes its clock every few tens of milliseconds, by what it has just been running.  So
contestants take short turns, and every round is a palindrome: all of them once in an order drawn anew, then once
more in the reverse order, which takes a drift within the round out of every ratio.  A ratio is taken within a
round, from both turns of each; the answer is the median over rounds, with a bootstrap interval over rounds.
Before each turn the GPU is touched by an empty call, so that no turn pays for what came before it, and what asking
and waiting cost is measured with empty calls too, and taken off.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Replay = Callable[[int], None]
"""Replay the recorded calls so many times and wait until they are done; 0 launches something empty and waits."""

LEAST_ROUNDS = 9
MORE = 4
"""Rounds between two questions whether they are enough."""
LENIENT = 1.5
"""How much longer than `Asking` says an empty call may take."""
_LEAST_MS = 1e-6


@dataclass(frozen=True)
class Interval:
    """A ratio with its bootstrap 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """As a share of the value."""
        return (self.high - self.low) / self.value

    def data(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Asking:
    """Seconds that a process's empty calls take before anything hostile is loaded into it.

    Afterwards they are its own word: one that is slow takes more off every time than asking costs, and one that
    works in secret has begun before the clock.
    """

    first: float
    """The one that turns the GPU to the process."""
    empty: float

    def late(self, first: float, empty: float) -> float:
        """Seconds that two calls took beyond what they may."""
        return max(first - LENIENT * self.first, 0.0) + max(empty - LENIENT * self.empty, 0.0)


def turn(replay: Replay, times: int) -> tuple[float, float, float]:
    """Seconds that the replays take, that an empty call takes just before, and one before that."""
    begun = time.perf_counter()
    replay(0)  # whatever ran before, of another process too, is now off the GPU
    started = time.perf_counter()
    replay(0)
    asked = time.perf_counter()
    replay(times)
    return time.perf_counter() - asked, asked - started, started - begun


def asking(replay: Replay, before: Callable[[], object]) -> Asking:
    """What empty calls take. before: has the GPU busy with something else."""
    taken = []
    for _ in range(9):
        before()
        taken.append(turn(replay, 0)[1:])
    return Asking(first=statistics.median(t[1] for t in taken), empty=statistics.median(t[0] for t in taken))


def overhead(replay: Replay) -> float:
    """Seconds from asking for an empty call to the answer."""
    return statistics.median(turn(replay, 0)[1] for _ in range(9))


def repetitions(replay: Replay, idle: float, target_ms: float) -> int:
    """How often to replay so that it takes about target_ms; also warms up. Once if no target is set."""
    replay(1)
    if target_ms <= 0:
        return 1
    started = time.perf_counter()
    replay(2)
    spent = 1e3 * max(time.perf_counter() - started - idle, 1e-6) / 2
    return max(1, min(5000, round(target_ms / spent)))


def rounds(
    contestants: dict[str, tuple[Replay, int]],
    count: int,
    target_ms: float,
    *,
    before: Callable[[str], None] | None = None,
    after: Callable[[str], None] | None = None,
    warm_s: float = 0.0,
    budget_s: float = float("inf"),
    enough: Callable[[dict[str, list[float]]], bool] | None = None,
    patience_s: float = 0.0,
    trusted: Mapping[str, Asking] | None = None,
    empties: dict[str, list[float]] | None = None,
) -> dict[str, list[float]]:
    """Milliseconds a call, by contestant and round.

    target_ms: what one contestant takes of a round, in two turns; 0 for one replay a turn. before, after: called
    with the contestant's name around each turn, outside its time. warm_s: seconds of uncounted rounds, at least
    one round. budget_s: where `count` rounds would take longer, there are fewer, but never below LEAST_ROUNDS
    (or count). enough: whether these times will do; where they will not there are more rounds, begun until
    patience_s after the first. It is asked while the GPU waits, and the clock changes meanwhile: it must be quick.
    trusted: for contestants that may lie about their empty calls, what those take; more is not taken
    off, and what comes late before the clock is counted. empties: is given what each one's empty calls took, in
    seconds.
    """
    trusted = trusted or {}
    times = {name: repetitions(replay, overhead(replay), target_ms / 2) for name, (replay, _) in contestants.items()}
    idle = {} if empties is None else empties
    idle.update({name: [] for name in contestants})
    order = list(contestants)
    shuffle = random.Random(0)

    def palindrome() -> dict[str, float]:
        shuffle.shuffle(order)
        spent = dict.fromkeys(contestants, 0.0)
        for name in [*order, *reversed(order)]:
            if before:
                before(name)
            worked, empty, first = turn(contestants[name][0], times[name])
            spent[name] += (worked + (trusted[name].late(first, empty) if name in trusted else 0.0)) / 2
            idle[name].append(empty)
            if after:
                after(name)
        return spent

    def milliseconds() -> dict[str, list[float]]:
        asked = {name: statistics.median(spent) for name, spent in idle.items()}
        asked |= {name: min(asked[name], LENIENT * known.empty) for name, known in trusted.items() if name in asked}
        return {
            name: [max(1e3 * (r[name] - asked[name]) / (times[name] * calls), _LEAST_MS) for r in taken]
            for name, (_, calls) in contestants.items()
        }

    started = time.perf_counter()
    palindrome()
    one = max(time.perf_counter() - started, 1e-3)
    for _ in range(int(warm_s / one)):
        palindrome()
    most = max(LEAST_ROUNDS, int(budget_s / one)) if budget_s < float("inf") else count
    begun = time.perf_counter()
    taken = [palindrome() for _ in range(min(count, most))]
    while enough and time.perf_counter() - begun < patience_s and not enough(milliseconds()):
        taken += [palindrome() for _ in range(MORE)]
    return milliseconds()


def spread(numerator: list[float], denominator: list[float]) -> float:
    """How wide the 95 % interval of `ratio` is, as a share of it, by the ranks of the rounds' ratios: cheap."""
    low, median, high = _ranked(numerator, denominator)
    return (high - low) / median


def at_most(numerator: list[float], denominator: list[float]) -> float:
    """Where the 95 % interval of `ratio` ends, by the same ranks."""
    return _ranked(numerator, denominator)[2]


def _ranked(numerator: list[float], denominator: list[float]) -> tuple[float, float, float]:
    """The interval's lower end, the median and the upper end."""
    ratios = sorted(n / d for n, d in zip(numerator, denominator, strict=True))
    middle, reach = (len(ratios) - 1) / 2, 0.98 * math.sqrt(len(ratios))
    low, high = max(math.floor(middle - reach), 0), min(math.ceil(middle + reach), len(ratios) - 1)
    return ratios[low], statistics.median(ratios), ratios[high]


def ratio(numerator: list[float], denominator: list[float], draws: int = 2000) -> Interval:
    """Median over rounds of the ratio within a round, with a bootstrap interval over rounds."""
    ratios = [n / d for n, d in zip(numerator, denominator, strict=True)]
    source = random.Random(len(ratios))
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(draws))
    return Interval(statistics.median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws)])
