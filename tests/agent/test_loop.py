import pytest
from codasmith.agent import loop
from codasmith.agent.budget import Budget
from codasmith.agent.errors import Interrupted
from codasmith.agent.journal import Journal, read
from codasmith.agent.models import ModelError, Usage
from codasmith.agent.report import closing, exit_code, result_document, why_no_further


@pytest.fixture
def run(task, fake_gate, tmp_path):
    """Run the loop to its end; `run.path` is its journal."""

    def start(model, *, budget=None, **more):
        with Journal(start.path) as journal:
            return loop.run(task, model, budget=budget or Budget(), gate=fake_gate, journal=journal, **more)

    start.path = tmp_path / "run.jsonl"
    return start


def names(path):
    return [e["event"] for e in read(path)[0]]


def kept(evaluation, task, author):
    return {"name": f"{task.name}/abc", "digest": "abc", "author": author}


def test_the_first_candidate_that_passes_ends_the_run(run, scripted, code):
    result = run(scripted(code("fine")))
    assert (result.status, result.ended, exit_code(result)) == ("checked", "good-enough", 0)
    assert names(run.path) == ["prompt", "answer", "verdict", "stop"]


def test_a_refused_candidate_is_told_to_the_model_and_its_correction_passes(run, scripted, code):
    model = scripted(code("WRONG"), code("fine"))
    result = run(model)
    assert [a.verdict.status for a in result.attempts] == ["refused", "checked"]
    assert [m.role for m in model.asked[0]] == ["system", "user"]
    assert model.asked[1][:2] == model.asked[0]  # what providers cache
    assert "Halve it." in model.asked[1][-1].content and "# WRONG" in model.asked[1][-2].content


def test_a_passed_candidate_is_admitted_with_its_author(run, scripted, code):
    result = run(scripted(code("tax=1.02 x")), admit=kept)
    assert result.status == "admitted" and exit_code(result) == 0
    prompt, answer, verdict, admitted, _ = read(run.path)[0]
    assert admitted["entry"]["author"] == {
        "name": "scripted",
        "prompt_digest": prompt["digest"],
        "journal": run.path.name,
    }
    assert answer["prompt_digest"] == prompt["digest"] and verdict["source"].startswith("x = 1")


def test_nothing_is_admitted_that_did_not_pass(run, scripted, code):
    def never(*_):
        raise AssertionError

    assert run(scripted(code("fine")), admit=never).status == "checked"


def test_a_target_tax_spends_the_budget_on_something_faster_and_keeps_the_best(run, scripted, code):
    answers = [code("tax=1.20 a"), code("WRONG"), code("tax=1.10 b"), code("tax=1.15 c")]
    result = run(scripted(*answers), admit=kept, target_tax=1.05, budget=Budget(attempts=4))
    assert result.ended == "attempts" and result.status == "admitted" and exit_code(result) == 0
    assert result.best.number == 3 and result.best.verdict.tax == 1.10
    assert "tax 1.100" in closing(result) and "attempt 3 of 4" in closing(result)


def test_a_tax_at_the_target_ends_the_run(run, scripted, code):
    result = run(scripted(code("tax=1.20 a"), code("tax=1.05 b"), code("never asked")), target_tax=1.05)
    assert result.ended == "good-enough" and len(result.attempts) == 2


@pytest.mark.parametrize(
    ("budget", "usage", "ended", "attempts"),
    [
        (Budget(attempts=2), None, "attempts", 2),
        (Budget(tokens=300), None, "tokens", 3),
        (Budget(dollars=0.02), None, "dollars", 2),
        (Budget(minutes=1e-9), None, "minutes", 1),
        (Budget(tokens=300), Usage(known=False), "uncounted", 1),
        (Budget(dollars=0.02), Usage(input_tokens=1), "unpriced", 1),
    ],
)
def test_each_budget_ends_the_run_and_is_named(run, scripted, code, budget, usage, ended, attempts):
    model = scripted(*(code(f"WRONG {i}") for i in range(9)), usage=usage)
    if ended == "minutes":  # time counts from the first event
        model.before = lambda: __import__("time").sleep(0.01)
    result = run(model, budget=budget)
    assert (result.ended, len(result.attempts)) == (ended, attempts)
    assert exit_code(result) == (2 if ended.startswith("un") else 4)
    assert read(run.path)[0][-1]["reason"] == ended


def test_an_answer_without_a_candidate_is_refused_without_the_gate(run, scripted, code, fake_gate):
    model = scripted("no code here", code("fine"))
    result = run(model)
    assert result.attempts[0].verdict.finding.code == "no-code"
    assert len(fake_gate.judged) == 1
    assert "no code block" in model.asked[1][-1].content


def test_the_same_file_again_is_not_judged_again_and_ends_the_run_at_the_third(run, scripted, code, fake_gate):
    model = scripted(*[code("WRONG")] * 5)
    result = run(model)
    assert (result.ended, len(result.attempts), len(fake_gate.judged)) == ("repeats", 3, 1)
    assert "same as your answer 1" in model.asked[2][-1].content
    assert exit_code(result) == 1


def test_the_same_words_without_code_end_the_run_at_the_third(run, scripted):
    result = run(scripted(*["I will not."] * 5))
    assert (result.ended, len(result.attempts)) == ("repeats", 3)
    assert [a.repeats for a in result.attempts] == [None, 1, 1]


def test_a_gate_that_cannot_finish_ends_the_run_and_blames_no_candidate(run, scripted, code):
    result = run(scripted(code("BROKEN"), code("never asked")))
    assert (result.ended, exit_code(result)) == ("gate", 3)
    assert "the driver went away" in closing(result)


def test_a_refusal_of_the_registry_is_recorded_and_said(run, scripted, code):
    def refuse(*_):
        raise ValueError("the store is full")

    result = run(scripted(code("tax=1.02 x")), admit=refuse)
    assert result.status == "passed" and result.best.not_kept == "the store is full"
    assert next(e for e in read(run.path)[0] if e["event"] == "error")["what"] == "admission"


def test_a_model_that_never_answers_is_an_error_in_the_journal(run, scripted):
    with pytest.raises(ModelError, match="no key"):
        run(scripted(ModelError("no key", "missing-key")))
    assert names(run.path) == ["prompt", "error"]


@pytest.mark.parametrize(("kind", "code_"), [("other", 1), ("refused", 1), ("overloaded", 3), ("bad-key", 2)])
def test_a_model_that_stops_answering_ends_the_run_with_what_there_is(run, scripted, code, kind, code_):
    cost = Usage(input_tokens=7, output_tokens=0, dollars=0.5)
    result = run(scripted(code("WRONG"), ModelError("gone away", kind, usage=cost)))
    assert result.ended == "model" and exit_code(result) == code_
    assert closing(result).endswith(f"gone away. To go on: codasmith resume {run.path}")
    assert result.spent.tokens == 127 and result.spent.dollars == pytest.approx(0.51)


def test_answers_that_broke_off_are_counted_beside_what_was_reported(run, scripted, code):
    lost = ModelError("gone", "cut-off", usage=Usage(dollars=0.0, broken=2))
    spent = run(scripted(code("WRONG"), lost, usage=Usage(input_tokens=5, dollars=0.1, broken=1))).spent
    assert (spent.broken, spent.tokens, spent.unpriced, spent.uncounted) == (3, 5, False, False)


def test_a_model_that_fails_after_a_pass_does_not_undo_it(run, scripted, code):
    result = run(scripted(code("tax=1.2 x"), ModelError("gone", "timeout")), target_tax=1.0, admit=kept)
    assert result.status == "admitted" and exit_code(result) == 0
    assert why_no_further(result) == (
        f"It ended because the model gave no further answer: gone. To go on: codasmith resume {run.path}"
    )


def test_a_target_that_the_budget_did_not_let_reach_is_said(run, scripted, code):
    result = run(scripted(code("tax=1.2 x"), code("tax=1.1 x")), target_tax=1.0, budget=Budget(attempts=2))
    message = result_document(result)["message"]
    assert message.endswith(f"the budget of attempts is spent. To go on: codasmith resume {run.path} --attempts N")
    assert "tax 1.100" in message and why_no_further(run(scripted(code("tax=1.0 y")))) == ""


def test_a_model_is_prepared_once_before_the_first_question(run, scripted, code, task):
    model = scripted(code("WRONG"), code("fine"))
    prepared = []
    model.prepare = prepared.append
    run(model)
    assert prepared == [task]


def test_ctrl_c_is_recorded_and_says_how_to_go_on(run, scripted, code):
    model = scripted(code("fine"))

    def stop():
        raise KeyboardInterrupt

    model.before = stop
    with pytest.raises(Interrupted, match=f"codasmith resume {run.path}"):
        run(model)
    assert names(run.path) == ["prompt", "interrupted"]
    model.before = None
    assert run(model).status == "checked"
    assert names(run.path) == ["prompt", "interrupted", "prompt", "answer", "verdict", "stop"]


def test_messages_are_written_whole_once(run, scripted, code):
    run(scripted(code("WRONG 1"), code("fine")))
    first, second = [e for e in read(run.path)[0] if e["event"] == "prompt"]
    assert all("content" in m for m in first["messages"])
    assert ["content" in m for m in second["messages"]] == [False, False, True, True]
    assert [m["sha256"] for m in second["messages"][:2]] == [m["sha256"] for m in first["messages"]]


def test_the_document_of_a_run_says_it_all(run, scripted, code):
    document = result_document(run(scripted(code("WRONG"), code("fine"))))
    assert (document["exit_code"], document["status"], document["best"]) == (0, "checked", 2)
    assert [a["verdict"]["status"] for a in document["attempts"]] == ["refused", "checked"]
    assert document["spent"]["tokens"] == 240 and document["journal"].endswith("run.jsonl")
