import math

import pytest
from codasmith.agent.budget import MAX_ANSWER_TOKENS, Budget, Spent
from codasmith.agent.errors import UserMistake


@pytest.mark.parametrize(
    ("budget", "spent", "ended"),
    [
        (Budget(attempts=3), Spent(attempts=2), None),
        (Budget(attempts=3), Spent(attempts=3), "attempts"),
        (Budget(attempts=None, tokens=500), Spent(attempts=99, tokens=499), None),
        (Budget(tokens=500), Spent(tokens=500), "tokens"),
        (Budget(dollars=0.5), Spent(dollars=0.5), "dollars"),
        (Budget(minutes=2), Spent(seconds=119), None),
        (Budget(minutes=2), Spent(seconds=120), "minutes"),
    ],
)
def test_a_budget_ends_when_its_bound_is_reached_and_says_which(budget, spent, ended):
    assert budget.ended_by(spent) == ended


def test_a_bound_that_cannot_be_measured_ends_the_run():
    assert Budget(tokens=500).ended_by(Spent(uncounted=True)) == "uncounted"
    assert Budget(dollars=1).ended_by(Spent(unpriced=True)) == "unpriced"
    assert Budget().ended_by(Spent(uncounted=True, unpriced=True)) is None


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"tokens": -5}, {"dollars": math.nan}, {"minutes": math.inf}])
def test_a_bound_that_leaves_nothing_is_a_mistake_named_by_its_option(wrong):
    (name,) = wrong
    with pytest.raises(UserMistake, match=f"--{name} "):
        Budget(**wrong)


def test_an_answer_may_use_no_more_tokens_than_are_left():
    assert Budget(tokens=1_000).answer_tokens(Spent(tokens=900)) == 100
    assert Budget().answer_tokens(Spent(tokens=10**9)) == MAX_ANSWER_TOKENS


def test_changes_replace_only_the_bounds_that_are_given():
    assert Budget(attempts=3, tokens=10).with_changes(attempts=5, tokens=None) == Budget(attempts=5, tokens=10)


def test_what_is_left_is_said_in_words():
    left = Budget(attempts=3, tokens=1_000, dollars=2.0, minutes=5).left(
        Spent(attempts=2, tokens=1, dollars=0.5, seconds=60)
    )
    assert left == "1 attempt, 999 tokens, $1.50, 4.0 minutes"
