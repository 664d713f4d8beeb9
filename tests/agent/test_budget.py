import math
from dataclasses import replace

import pytest
from codasmith.agent import loop
from codasmith.agent.budget import MAX_ANSWER_TOKENS, Budget, Spent
from codasmith.agent.errors import UserMistake
from codasmith.agent.journal import Journal
from codasmith.agent.report import closing, exit_code
from codasmith.gate.verdict import StageResult, Verdict


@pytest.mark.parametrize(
    ("budget", "spent", "ended"),
    [
        (Budget(attempts=3), Spent(attempts=2), None),
        (Budget(attempts=3), Spent(attempts=3), "attempts"),
        (Budget(attempts=None, tokens=500), Spent(attempts=99, tokens=499), None),
        (Budget(tokens=500), Spent(tokens=500), "tokens"),
        (Budget(dollars=0.5), Spent(dollars=0.5), "dollars"),
        (Budget(minutes=2), Spent(seconds=119), None),
        (Budget(gpu_seconds=30), Spent(gpu_seconds=29.9, seconds=900), None),
        (Budget(gpu_seconds=30), Spent(gpu_seconds=30.1), "gpu_seconds"),
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


def test_what_was_spent_in_words():
    assert str(Spent(attempts=1)) == "1 attempt, 0 tokens, $0.0000, 0.0 s"
    spent = Spent(attempts=3, tokens=4_480, cached=1_000, output=480, dollars=0.04, seconds=45, gpu_seconds=6.3)
    assert str(spent) == (
        "3 attempts, 4,480 tokens (1,000 cached, 480 written), $0.0400, 45.0 s, 6.3 s of them on the GPU"
    )
    assert str(replace(spent, admitted=2)).endswith("; 2 kernels admitted, $0.0200 and 3.1 s of GPU each")
    assert "tokens not reported" in str(Spent(uncounted=True))
    assert str(Spent(attempts=1, tokens=480, unpriced=True)) == "1 attempt, 480 tokens, price not known, 0.0 s"
    assert "$0.0400 and more (some answers have no price)" in str(replace(spent, unpriced=True))
    assert str(replace(spent, broken=1)).endswith("; not in it 1 answer that broke off: what one costs is not said")
    assert str(replace(spent, unpriced=True, admitted=2)).endswith("; 2 kernels admitted, 3.1 s of GPU each")


def test_gpu_seconds_are_those_of_the_stages_that_hold_it(tmp_path, task, scripted, code):
    """A repeated answer holds it no second time, and a bound on it ends the run."""

    def gate(task, source, **_):
        stages = tuple(
            StageResult(stage=s, outcome="passed", seconds=n) for s, n in [("compile", 60), ("tune", 2), ("timing", 3)]
        )
        verdict = Verdict(
            task=task.name,
            task_digest=task.digest,
            candidate_digest="c",
            status="passed",
            stages=stages,
            timing={"tax": 1.2},
        )
        return type("Evaluation", (), {"verdict": verdict, "source": source})()

    model = scripted(code("a"), code("a"), code("b"), code("c"))
    with Journal(tmp_path / "run.jsonl") as journal:
        result = loop.run(task, model, budget=Budget(gpu_seconds=9), gate=gate, journal=journal, target_tax=1.0)
    assert (result.ended, result.spent.gpu_seconds, len(result.attempts)) == ("gpu_seconds", 10, 3)
    assert "--gpu-seconds" not in closing(result) and exit_code(result) == 0
