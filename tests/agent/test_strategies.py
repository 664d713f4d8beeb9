"""What each strategy shows, when each stop ends a run, and that a kill changes neither."""

import json
import types

import pytest
from codasmith.agent import campaign, loop
from codasmith.agent.budget import Budget
from codasmith.agent.errors import UserMistake
from codasmith.agent.history import History
from codasmith.agent.journal import Journal, read
from codasmith.agent.prompt import system_text
from codasmith.agent.strategies import NAMES, BestFirst, BestOfN, Refine, make_strategy


@pytest.fixture
def run(task, fake_gate, tmp_path):
    def start(model, *, budget=None, **more):
        with Journal(start.path) as journal:
            return loop.run(task, model, budget=budget or Budget(), gate=fake_gate, journal=journal, **more)

    start.path = tmp_path / "run.jsonl"
    return start


def told(path):
    """The attempts that each question told of."""
    return [e["shown"] for e in read(path)[0] if e["event"] == "prompt"]


def test_refine_shows_the_best_and_the_newest(run, scripted, code):
    answers = [code("tax=1.20 a"), code("WRONG b"), code("tax=1.10 c"), code("tax=1.30 d"), code("tax=1.00 e")]
    result = run(scripted(*answers), target_tax=1.05)
    assert result.ended == "good-enough" and result.best.number == 5
    assert told(run.path) == [[], [1], [1, 2], [3], [3, 4]]


def test_best_of_n_asks_the_same_question_n_times_and_takes_the_best(run, scripted, code):
    model = scripted(code("tax=1.20 a"), code("tax=1.05 b"), code("WRONG c"), code("never asked"))
    result = run(model, strategy=BestOfN(3))
    assert (result.ended, result.best.number, len(result.attempts)) == ("width", 2, 3)
    assert model.asked[0] == model.asked[1] == model.asked[2]
    assert told(run.path) == [[], [], []]


def test_samples_that_come_again_do_not_end_best_of_n(run, scripted, code, fake_gate):
    result = run(scripted(*[code("WRONG")] * 5, code("fine")), strategy=BestOfN())
    assert result.status == "checked" and len(result.attempts) == 6 and len(fake_gate.judged) == 2


def test_best_first_expands_the_fastest_candidates_in_turn(run, scripted, code):
    answers = [
        "WRONG a",  # 1: nothing is verified, so it is refined
        "tax=1.30 b",  # 2 <- 1
        "tax=1.20 c",  # 3 <- 2, the only candidate
        "tax=1.25 d",  # 4 <- 3, which nothing came of yet
        "tax=1.40 e",  # 5 <- 4: of 3 and 4, the one with fewer expansions; 2 is beyond the width
        "WRONG f",  # 6 <- 3, expanded once like 4, and faster; shown with what came of it
        "tax=1.10 g",  # 7 <- 4, with 5
        "tax=1.05 h",  # 8 <- 7, the new best
    ]
    result = run(scripted(*map(code, answers)), strategy=BestFirst(2), budget=Budget(attempts=8))
    assert told(run.path) == [[], [1], [2], [3], [4], [3, 4], [4, 5], [7]]
    assert result.ended == "attempts" and result.best.number == 8


def test_a_repeat_spends_the_turn_of_one_candidate_only(run, scripted, code):
    answers = ["tax=1.30 a", "tax=1.20 b", "tax=1.20 b", "tax=1.30 a", "tax=1.20 b", "tax=1.20 b"]
    result = run(scripted(*map(code, answers)), strategy=BestFirst(2))
    assert told(run.path)[2:5] == [[2], [2, 3], [1, 2]]
    assert (result.ended, len(result.attempts)) == ("repeats", 5)


@pytest.mark.parametrize("strategy", [Refine(), BestOfN(), BestFirst()])
def test_patience_ends_a_run_that_gets_no_better(run, scripted, code, strategy):
    answers = [f"tax=1.{n} {n}" for n in (30, 20, 25, 26, 27, 28)]
    result = run(scripted(*map(code, answers)), strategy=strategy, patience=3)
    assert (result.ended, result.best.number, len(result.attempts)) == ("patience", 2, 5)
    assert read(run.path)[0][-1]["reason"] == "patience"


def test_a_stage_further_is_an_improvement(run, scripted, code, fake_gate):
    result = run(scripted("no code", code("WRONG 1"), code("WRONG 2"), code("WRONG 3"), code("x")), patience=2)
    assert (result.ended, result.best.number, len(result.attempts)) == ("patience", 2, 4)


def test_a_target_speed_up_is_over_the_faster_baseline(run, scripted, code, fake_gate):
    times = {"1.2": (2.0, 1.1), "1.1": (2.0, 1.3), "1.0": (2.0, 1.6)}

    def gate(task, source, **more):
        evaluation = fake_gate(task, source, **more)
        eager, compiled = times[source.split("tax=")[1].split()[0]]
        timing = {**evaluation.verdict.timing, "over_eager": eager, "over_compile": compiled}
        evaluation.verdict = evaluation.verdict.model_copy(update={"timing": timing})
        return evaluation

    with Journal(run.path) as journal:
        from codasmith.tasks import load_task

        model = scripted(*(code(f"tax={t} x") for t in times))
        result = loop.run(
            load_task("linear_bias"), model, budget=Budget(), gate=gate, journal=journal, target_speedup=1.5
        )
    assert result.ended == "good-enough" and len(result.attempts) == 3
    assert "the target is a speed-up of 1.500 over the faster of eager torch and torch.compile" in (
        model.asked[1][-1].content
    )


def test_where_nothing_is_timed_the_first_that_passes_ends_every_strategy(task, fake_gate, tmp_path, scripted, code):
    for name in NAMES:
        with Journal(tmp_path / f"{name}.jsonl") as journal:
            model = scripted(code("WRONG"), code("fine"), code("never asked"))
            result = loop.run(
                task,
                model,
                budget=Budget(),
                gate=fake_gate,
                journal=journal,
                strategy=make_strategy(name),
                target_tax=1.0,
                patience=5,
            )
        assert (result.ended, len(result.attempts)) == ("good-enough", 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "best-frist"}, "did you mean best-first"),
        ({"strategy": "x"}, "choose one of refine, best-of-n, best-first"),
        ({"strategy": "best-first", "width": 0}, "--width 0 leaves no candidate"),
        ({"width": 2}, "--width is for best-of-n and best-first"),
        ({"patience": 0}, "--patience 0 would end the run"),
        ({"target_tax": -1.0}, "--target-tax -1 can never be reached"),
        ({"target_speedup": float("nan")}, "--target-speedup nan can never be reached"),
    ],
)
def test_a_strategy_or_stop_that_cannot_be_is_a_mistake_before_anything_is_written(
    tmp_path, task, scripted, options, words
):
    with pytest.raises(UserMistake, match=words):
        campaign.run(task, scripted(), journal=tmp_path / "run.jsonl", **options)
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.parametrize("change", [{"strategy": 5}, {"width": "2"}, {"patience": 1.5}, {"target_speedup": "fast"}])
def test_a_journal_with_a_strategy_that_is_none_is_refused(
    tmp_path, task, scripted, code, fake_gate, monkeypatch, change
):
    monkeypatch.setattr(campaign, "gate_and_admit", lambda *_: (fake_gate, None))
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path)
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps(json.loads(first) | change) + "\n", *rest]))
    with pytest.raises(UserMistake, match="does not say how its run was begun"):
        campaign.resume(path, model=scripted())


def test_a_journal_from_before_strategies_goes_on_as_refine(tmp_path, task, scripted, code, fake_gate, monkeypatch):
    monkeypatch.setattr(campaign, "gate_and_admit", lambda *_: (fake_gate, None))
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("WRONG a")), journal=path, budget=Budget(attempts=1))
    first, *rest = path.read_text().splitlines(keepends=True)
    start = {k: v for k, v in json.loads(first).items() if k not in ("strategy", "width", "patience", "target_speedup")}
    path.write_text("".join([json.dumps(start) + "\n", *rest]))
    model = scripted(code("fine"))
    assert campaign.resume(path, model=model, attempts=2).status == "checked"
    assert "# WRONG a" in model.asked[0][-2].content


SCRIPT = ("WRONG a", "tax=1.30 b", "tax=1.20 c", "WRONG d", "tax=1.25 e", "tax=1.10 f")


@pytest.mark.parametrize("events", range(1, 21, 2))
@pytest.mark.parametrize(("name", "width"), [("refine", None), ("best-of-n", 6), ("best-first", 2)])
def test_a_killed_run_asks_what_it_would_have_asked(
    tmp_path, task, fake_gate, scripted, code, killed, name, width, events
):
    """Killed in a child process after any event, and gone on with: the same questions, answers and end."""
    answers = list(map(code, SCRIPT))
    campaign.gate_and_admit, real = (lambda *_: (fake_gate, None)), campaign.gate_and_admit
    try:
        system_text(task)

        def begin(path, model):
            return campaign.run(
                task, model, strategy=name, width=width, patience=4, budget=Budget(attempts=6), journal=path
            )

        whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
        expected = begin(whole, scripted(*answers))
        killed(path, min(events, len(read(whole)[0])), lambda: begin(path, scripted(*answers)))
        answered = len(History(read(path)[0]).attempts)
        result = campaign.resume(path, model=scripted(*answers[answered:]))
    finally:
        campaign.gate_and_admit = real
    assert result.ended == expected.ended and result.best.number == expected.best.number
    assert [a.source for a in result.attempts] == [a.source for a in expected.attempts]
    assert [a.prompt_digest for a in result.attempts] == [a.prompt_digest for a in expected.attempts]
    assert [a.shown for a in result.attempts] == [a.shown for a in expected.attempts]


def test_what_a_campaign_lets_through_has_been_under_the_sanitizer(task, code, monkeypatch):
    from codasmith import gate

    asked = []

    def evaluation(status):
        return types.SimpleNamespace(verdict=types.SimpleNamespace(status=status))

    monkeypatch.setattr(gate, "evaluate", lambda task, source, **_: evaluation(source))
    monkeypatch.setattr(gate, "sanitize", lambda found, **_: asked.append(found) or [evaluation("refused")])
    judge, _ = campaign.gate_and_admit("bf16", False)
    statuses = [judge(task, s, tier="closed", progress=None).verdict.status for s in ("passed", "checked", "refused")]
    assert statuses == ["refused", "checked", "refused"] and len(asked) == 1
