"""Independent samples asked for at once: how many, what becomes of failures, and that a kill loses nothing paid for."""

import threading
import time

import pytest
from codasmith.agent import campaign, loop
from codasmith.agent.budget import Budget
from codasmith.agent.journal import Journal, read
from codasmith.agent.models import Answer, ModelError, Usage, make_model
from codasmith.agent.strategies import BestFirst, BestOfN, Refine


class Crowd:
    """Answers its first calls only when `together` of them are there; failures by the number of the call."""

    name, concurrent = "crowd", True

    def __init__(self, *answers, together, failures=()):
        self.answers, self.failures, self.calls, self.most, self.out = list(answers), dict(failures), 0, 0, 0
        self.lock, self.barrier = threading.Lock(), threading.Barrier(together, timeout=20)

    def answer(self, messages, *, max_tokens, on_text=None):
        with self.lock:
            self.calls, self.out = self.calls + 1, self.out + 1
            self.most, number = max(self.most, self.out), self.calls
        if number <= self.barrier.parties:
            self.barrier.wait()
        with self.lock:
            self.out -= 1
            if number in self.failures:
                raise self.failures[number]
            return Answer(text=self.answers.pop(0), usage=Usage(input_tokens=10, output_tokens=5), model="crowd")


@pytest.fixture
def run(task, fake_gate, tmp_path):
    def start(model, **more):
        with Journal(tmp_path / "run.jsonl") as journal:
            return loop.run(task, model, **{"budget": Budget(), "gate": fake_gate, "journal": journal, **more})

    return start


def names(folder):
    return [e["event"] for e in read(folder / "run.jsonl")[0]]


def test_best_of_n_has_four_questions_out_at_once_and_judges_every_answer(run, code, tmp_path):
    model = Crowd(*(code(f"tax=1.{n} x") for n in (30, 10, 20, 40)), together=4)
    result = run(model, strategy=BestOfN(4))
    assert (result.ended, len(result.attempts), model.most) == ("width", 4, 4)
    assert result.best.verdict.tax == 1.10 and all(a.verdict for a in result.attempts)
    assert names(tmp_path) == ["prompt"] * 4 + ["answer"] * 4 + ["verdict"] * 4 + ["stop"]


def test_no_more_are_asked_than_width_and_attempts_leave(run, code):
    result = run(Crowd(*[code("tax=1.3 x")] * 3, together=3), strategy=BestOfN(), budget=Budget(attempts=3))
    assert (result.ended, len(result.attempts)) == ("attempts", 3)
    assert [a.number for a in result.attempts] == [1, 2, 3]


@pytest.mark.parametrize("bound", [{"tokens": 15}, {"dollars": 0.01}, {"gpu_seconds": 5.0}])
def test_with_a_bound_on_what_answers_cost_one_is_asked_at_a_time(run, code, bound):
    model = Crowd(code("tax=1.3 x"), code("tax=1.2 x"), together=1)
    run(model, strategy=BestOfN(2), budget=Budget(**bound))
    assert model.most == 1


@pytest.mark.parametrize("strategy", [Refine(), BestFirst()])
def test_strategies_that_build_on_answers_ask_one_at_a_time(run, code, strategy):
    model = Crowd(*(code(f"tax=1.{n} {n}") for n in (30, 20)), together=1)
    run(model, strategy=strategy, patience=1, budget=Budget(attempts=2))
    assert model.most == 1


def test_when_the_time_is_up_within_a_round_the_rest_is_left_to_a_resume(task, fake_gate, tmp_path, code, scripted):
    class TwoJudgementsLong(Budget):
        def out_of_time(self, spent):
            return len(fake_gate.judged) >= 2

    path, model = tmp_path / "run.jsonl", Crowd(*(code(f"tax=1.{n} {n}") for n in (30, 10, 20, 40)), together=4)
    bounded = {"strategy": BestOfN(4), "gate": fake_gate}
    with Journal(path) as journal:
        journal.write("start", task=task.name)
        late = loop.run(task, model, budget=TwoJudgementsLong(), journal=journal, **bounded)
    assert (late.ended, len(late.attempts), len(fake_gate.judged)) == ("minutes", 4, 2)
    with Journal(path) as journal:
        journal.write("resumed")
        still = loop.run(task, scripted(), budget=TwoJudgementsLong(), journal=journal, **bounded)
        assert (still.ended, len(fake_gate.judged)) == ("minutes", 3), "one step each time that it is called"
        result = loop.run(task, scripted(), budget=Budget(minutes=5), journal=journal, **bounded)
    assert (result.ended, len(fake_gate.judged)) == ("width", 4) and all(a.verdict for a in result.attempts)


def test_a_question_that_failed_is_counted_and_put_again_while_others_were_answered(run, code, tmp_path):
    usage = Usage(input_tokens=7, output_tokens=0)
    failures = {2: ModelError("no", "refused", usage=usage)}
    model = Crowd(*(code(f"tax=1.{n} {n}") for n in (30, 10, 20)), together=3, failures=failures)
    result = run(model, strategy=BestOfN(3), budget=Budget(attempts=9))
    first = ["prompt"] * 3 + ["answer"] * 2 + ["error"] + ["verdict"] * 2
    assert names(tmp_path) == [*first, "prompt", "answer", "verdict", "stop"] and model.calls == 4
    assert (result.ended, [a.number for a in result.attempts]) == ("width", [1, 2, 3])
    assert result.spent.tokens == 3 * 15 + 7


def test_where_none_is_answered_the_failure_is_the_run_s(run, code, tmp_path):
    gone = {n: ModelError(f"gone {n}", "unreachable") for n in (1, 2)}
    with pytest.raises(ModelError, match="gone"):
        run(Crowd(together=2, failures=gone), strategy=BestOfN(2))
    assert names(tmp_path) == ["prompt", "prompt", "error", "error"]


@pytest.mark.parametrize("events", [3, 4, 5, 6, 7, 8])
def test_a_run_killed_within_a_round_judges_what_was_answered_and_asks_for_the_rest(
    tmp_path, task, fake_gate, scripted, code, killed, monkeypatch, events
):
    monkeypatch.setattr(campaign, "gate_and_admit", lambda *_: (fake_gate, None))
    path = tmp_path / "run.jsonl"
    answers = [code(f"tax=1.{n} {n}") for n in (30, 20, 10)]

    def begin():
        return campaign.run(
            task, Crowd(*answers, together=3), strategy="best-of-n", width=3, target_tax=1.0, journal=path
        )

    killed(path, events, begin)  # start, three prompts, three answers, ...
    answered = [e["text"] for e in read(path)[0] if e["event"] == "answer"]
    left = [a for a in answers if a not in answered]
    model = scripted(*left)
    result = campaign.resume(path, model=model)
    assert (result.ended, len(result.attempts), len(model.asked)) == ("width", 3, len(left))
    assert sorted(a.text for a in result.attempts) == sorted(answers) and result.best.verdict.tax == 1.10
    assert all(a.verdict is not None for a in result.attempts)


def test_programs_are_asked_at_the_same_time(run, tmp_path, code):
    (tmp_path / "answer.txt").write_text(code("tax=1.2 x"))
    script = tmp_path / "slow.sh"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\nsleep 1\ncat {tmp_path / 'answer.txt'}\n")
    script.chmod(0o755)
    began = time.monotonic()
    result = run(make_model(f"command:{script}"), strategy=BestOfN(4))
    assert len(result.attempts) == 4 and time.monotonic() - began < 3.5
