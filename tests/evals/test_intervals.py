import math
import random

import pytest
from codasmith.evals.intervals import holm, mean, pass_at, ratio, share, sign_flip


def test_mean_weighs_tasks_alike_whatever_their_samples():
    found = mean([[1.0, 1.0, 1.0, 1.0], [0.0]])
    assert found.value == 0.5 and found.tasks == 2
    assert mean([[1.0], []]).tasks == 1
    assert mean([[], []]) is None and mean([]) is None


def test_geometric_mean_is_of_logarithms():
    assert mean([[2.0, 8.0], [1.0]], "geometric").value == pytest.approx(2.0)


def test_equal_values_leave_no_doubt_and_the_interval_covers_the_value():
    assert (mean([[3.0]] * 5).low, mean([[3.0]] * 5).high) == (3.0, 3.0)
    rng = random.Random(0)
    found = mean([[rng.gauss(10, 2) for _ in range(4)] for _ in range(40)])
    assert found.low < found.value < found.high
    # 40 tasks of 4 samples: a standard error near 2 / sqrt(160), and samples drawn again add as much once more
    assert 0.4 < found.high - found.low < 1.4


@pytest.mark.parametrize(("tasks", "samples"), [(6, 1), (12, 4), (30, 4)])
def test_interval_holds_the_truth_about_as_often_as_it_says(tasks, samples, monkeypatch):
    """Of shares and of geometric means, for few tasks too; plain percentiles hold it in 88 % of cases for six."""
    monkeypatch.setattr("codasmith.evals.intervals.RESAMPLES", 400)
    rng, held, trials = random.Random(1), [0, 0], 200
    for _ in range(trials):
        skill = [rng.random() for _ in range(tasks)]
        found = mean([[float(rng.random() < s) for _ in range(samples)] for s in skill])
        held[0] += found.low <= 0.5 <= found.high
        speed = [rng.gauss(0.1, 0.15) for _ in range(tasks)]
        found = mean([[math.exp(rng.gauss(s, 0.02)) for _ in range(samples)] for s in speed], "geometric")
        held[1] += found.low <= math.exp(0.1) <= found.high
    assert min(held) >= 0.91 * trials


def test_numbers_repeat():
    values = [[0.1, 0.7], [0.4], [0.9, 0.2, 0.3]]
    assert mean(values) == mean(values)


def test_a_share_of_all_or_nothing_keeps_a_doubt():
    assert share([[1.0]] * 39).low == pytest.approx(0.0253 ** (1 / 39), abs=0.01)
    assert share([[1.0]] * 39).high == 1.0
    none = share([[0.0, 0.0]] * 10)
    assert (none.value, none.low) == (0.0, 0.0) and none.high == pytest.approx(0.308, abs=0.001)
    assert share([[1.0], [0.0]]).value == 0.5


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 1), (4, 1, 2), (5, 3, 2), (6, 0, 3), (6, 6, 3), (10, 2, 4)])
def test_pass_at_k_is_the_chance_over_all_draws_of_k_samples(n, c, k):
    from itertools import combinations

    draws = list(combinations([1] * c + [0] * (n - c), k))
    expected = sum(any(d) for d in draws) / len(draws)
    assert pass_at([(n, c)], k).value == pytest.approx(expected)


def test_pass_at_k_leaves_out_tasks_with_fewer_samples():
    assert pass_at([(4, 4), (1, 0)], 2).tasks == 1
    assert pass_at([(1, 1)], 2) is None


def test_ratio_is_all_costs_over_all_gains():
    found = ratio([[1.0, 3.0], [4.0]], [[1.0, 0.0], [1.0]])
    assert found.value == 4.0
    assert ratio([[1.0]], [[0.0]]) is None
    rare = ratio([[1.0]] * 4, [[1.0], [0.0], [0.0], [0.0]])
    assert rare.value == 4.0 and rare.high is None


def test_sign_flip_is_exact_for_few_tasks():
    # of the 2^5 sign patterns only all plus and all minus are as far from zero
    assert sign_flip([1.0] * 5) == pytest.approx(2 / 32)
    assert sign_flip([1.0, -1.0]) == 1.0
    assert sign_flip([0.0, 0.0]) == 1.0
    assert sign_flip([]) == 1.0


def test_sign_flip_of_many_tasks_agrees_with_the_normal_limit_and_is_even():
    rng = random.Random(2)
    values = [rng.gauss(0.4, 1.0) for _ in range(40)]
    z = abs(sum(values)) / math.sqrt(sum(v * v for v in values))
    assert sign_flip(values) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.02)
    assert sign_flip(values) == pytest.approx(sign_flip([-v for v in values]), abs=0.01)


@pytest.mark.parametrize("tasks", [10, 40])
def test_without_a_difference_p_is_spread_evenly(tasks, monkeypatch):
    monkeypatch.setattr("codasmith.evals.intervals.PERMUTATIONS", 2000)
    rng = random.Random(3)
    ps = [sign_flip([rng.gauss(0, 1) for _ in range(tasks)]) for _ in range(400)]
    for bound in (0.05, 0.25, 0.5, 0.75):
        assert sum(p <= bound for p in ps) / 400 == pytest.approx(bound, abs=0.07 if bound > 0.05 else 0.03)


def test_holm_multiplies_the_smallest_most_and_never_falls():
    found = holm({("a", "b"): 0.01, ("a", "c"): 0.04, ("b", "c"): 0.03})
    assert found == pytest.approx({("a", "b"): 0.03, ("b", "c"): 0.06, ("a", "c"): 0.06})
    assert holm({("a", "b"): 0.9, ("a", "c"): 0.8})["a", "c"] == 1.0
