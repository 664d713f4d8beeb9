"""The stopwatch, with contestants of known cost and a clock that only they move."""

from __future__ import annotations

import statistics
from random import Random

import pytest
from codasmith.gate import stopwatch
from codasmith.gate.stopwatch import Asking, asking, overhead, ratio, rounds, spread


@pytest.fixture
def contestant(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])

    def make(milliseconds: float, asking: float):
        def replay(times: int) -> None:
            now[0] += 1e-3 * (asking + times * milliseconds)

        return replay

    return make


def test_what_asking_costs_is_no_part_of_a_time(contestant):
    assert overhead(contestant(1.0, asking=1.0)) == pytest.approx(1e-3)
    measured = rounds({"near": (contestant(0.4, 0.0), 2), "far": (contestant(0.4, 5.0), 2)}, 5, 30.0)
    assert [len(values) for values in measured.values()] == [5, 5]
    assert measured["near"] == pytest.approx([0.2] * 5)
    assert measured["far"] == pytest.approx([0.2] * 5)


def test_the_warming_round_is_not_counted(contestant):
    cold = [3.0]

    def replay(times: int) -> None:
        contestant(0.1 * max(cold[0], 1.0), 0.0)(times)
        cold[0] = 0.0 if times > 10 else cold[0]

    assert rounds({"a": (replay, 1)}, 3, 30.0)["a"] == pytest.approx([0.1] * 3)


def test_a_ratio_says_who_is_faster_and_how_surely():
    sure = ratio([1.5, 1.52, 1.48, 1.5, 1.51], [1.0] * 5)
    assert sure.value == 1.5 and 1.4 < sure.low <= sure.value <= sure.high < 1.6
    unsure = ratio([1.0, 1.2, 0.8, 1.1, 0.9], [1.0] * 5)
    assert unsure.low < 1 < unsure.high


class Board:
    """A GPU at its power limit: the clock follows what has been running, some tens of milliseconds behind."""

    def __init__(self, seed, behind_ms=40.0):
        self.now, self.clock, self.behind_ms, self.random = 0.0, 1.0, behind_ms, Random(seed)

    def run(self, milliseconds, power):
        while milliseconds > 0:
            step = min(milliseconds, 0.5)
            self.now += 1e-3 * step / self.clock
            self.clock += (min(1.0, power**-0.5) - self.clock) * min(1.0, step / self.clock / self.behind_ms)
            milliseconds -= step

    def contestant(self, milliseconds, power, calls, asking=0.15):
        def replay(times):
            self.now += 1e-3 * (asking + 0.03 * self.random.expovariate(1))
            self.run(milliseconds * times * calls, power)

        return replay, calls


def test_a_ratio_does_not_move_with_the_boards_power_control(monkeypatch):
    found = []
    for seed in range(10):
        board = Board(seed)
        monkeypatch.setattr(stopwatch.time, "perf_counter", lambda board=board: board.now)
        measured = rounds(
            {
                "kernel": board.contestant(0.20, 1.25, 16),
                "bare": board.contestant(0.20, 1.30, 16),
                "cublas": board.contestant(0.21, 1.20, 16, asking=0.02),
                "eager": board.contestant(0.35, 0.90, 16, asking=0.02),
            },
            25,
            0.0,
            warm_s=0.3,
            budget_s=2.0,
        )
        found.append(ratio(measured["kernel"], measured["bare"]))
    assert max(r.value for r in found) - min(r.value for r in found) < 0.01
    assert all(abs(r.value - 1.0) < 0.01 and r.width < 0.02 for r in found)


def test_rounds_stay_within_their_budget_but_for_a_least_number(contestant):
    slow = {"slow": (contestant(100.0, 0.0), 1)}
    assert len(rounds(slow, 25, 0.0, budget_s=0.5)["slow"]) == stopwatch.LEAST_ROUNDS
    assert len(rounds(slow, 5, 0.0, budget_s=0.5)["slow"]) == 5
    assert len(rounds(slow, 25, 0.0, budget_s=3.1)["slow"]) == 15


def test_rounds_go_on_until_they_are_enough_or_patience_ends(contestant):
    slow, looks = {"slow": (contestant(100.0, 0.0), 1)}, []

    def content_with(number):
        return lambda measured: looks.append(len(measured["slow"])) or looks[-1] >= number

    def taken(number, patience_s):
        looks.clear()
        found = rounds(slow, 9, 0.0, budget_s=2.0, enough=content_with(number), patience_s=patience_s)
        return len(found["slow"])

    assert taken(9, 60.0) == 9 and looks == [9]
    assert taken(16, 60.0) == 17 and looks == [9, 13, 17]
    assert taken(10**6, 4.0) == 21  # four seconds are twenty rounds of two turns
    assert taken(10**6, 0.0) == 9


def test_the_quick_spread_is_near_the_width_of_the_interval():
    dice = Random(5)
    for count in (9, 25, 60):
        shares = []
        for _ in range(40):
            values = [dice.gauss(1.0, 0.02) for _ in range(count)]
            shares.append(spread(values, [1.0] * count) / ratio(values, [1.0] * count, draws=500).width)
        assert 0.95 < statistics.median(shares) < 1.35
    assert spread([2.0] * 9, [1.0] * 9) == 0.0


def test_an_interval_that_was_made_narrow_still_holds_the_truth():
    """More rounds only where the first were unlucky is a choice by the data; it must cost little."""
    dice, held = Random(6), 0
    for _ in range(200):
        values = [dice.gauss(1.0, 0.012) for _ in range(19)]
        while spread(values, [1.0] * len(values)) > 0.01 and len(values) < 57:
            values += [dice.gauss(1.0, 0.012) for _ in range(4)]
        found = ratio(values, [1.0] * len(values), draws=300)
        held += found.low <= 1.0 <= found.high
    assert held >= 0.87 * 200


def test_every_turn_is_prepared_and_looked_at_and_rounds_are_palindromes(contestant):
    seen = []
    turns = {name: (contestant(1.0, 0.0), 1) for name in "abc"}
    rounds(turns, 2, 0.0, before=seen.append, after=lambda name: seen.append(name.upper()))
    names = [n for n in seen if n.islower()]
    assert [n.lower() for n in seen[1::2]] == names and len(names) == 18
    assert all(names[i : i + 6] == names[i : i + 6][::-1] for i in (0, 6, 12))


def test_who_may_lie_about_empty_calls_gains_nothing_by_slow_ones(contestant):
    honest = contestant(1.0, 0.1)
    known = asking(honest, lambda: None)
    assert (known.first, known.empty) == pytest.approx((1e-4, 1e-4))
    slow = contestant(1.0, 0.0)

    def lies(times):
        slow(times or 0.6)

    (believed,) = set(rounds({"a": (lies, 1)}, 3, 0.0)["a"])
    assert believed == pytest.approx(0.4)
    (counted,) = set(rounds({"a": (lies, 1)}, 3, 0.0, trusted={"a": known})["a"])
    assert counted == pytest.approx(1.0 + 2 * (0.6 - 0.15) - 0.15)
    assert rounds({"a": (honest, 1)}, 3, 0.0, trusted={"a": known})["a"] == pytest.approx([1.0] * 3)


def test_work_done_before_the_clock_starts_is_counted(contestant):
    costly, free = contestant(1.0, 0.1), contestant(0.0, 0.1)
    calls = []

    def ahead(times):
        calls.append(times)
        (costly if len(calls) % 3 == 1 else free)(1)

    (found,) = set(rounds({"a": (ahead, 1)}, 1, 0.0, trusted={"a": Asking(1e-4, 1e-4)})["a"])
    assert found == pytest.approx(0.95, abs=0.06)
