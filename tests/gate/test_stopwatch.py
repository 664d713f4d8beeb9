"""The stopwatch, with contestants of known cost and a clock that only they move."""

from __future__ import annotations

import pytest
from codasmith.gate import stopwatch
from codasmith.gate.stopwatch import overhead, ratio, rounds


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
