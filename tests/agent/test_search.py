"""The built-in search through the ordinary loop, with a gate that measures by a formula."""

import itertools

import pytest
from codasmith.agent import campaign
from codasmith.agent.budget import Budget
from codasmith.agent.journal import read
from codasmith.agent.models import Message, ModelError, make_model
from codasmith.agent.models.tracer import answer
from codasmith.gate.verdict import Finding, StageResult, Verdict
from codasmith.tasks import catalogue, load_task

TASK = "linear_swiglu_limit"  # three rewrites change it: tanh, fused products, narrow factors first
TANH, FUSED, NARROW = "sigmoid_by_tanh", "fused_products", "narrow_factors_first"


@pytest.fixture
def search(monkeypatch, tmp_path):
    """search(price): a campaign whose gate takes price(names of rewrites) as the tax, None being refused."""

    def gate_for(price):
        class Gate:
            def __init__(self):
                self.judged = []

            def __call__(self, task, source, *, tier="closed", progress=None, **_):
                self.judged.append(source)
                said = source.split("rewritten: ")[1].split(".")[0].split(", ") if "rewritten" in source else []
                tax = price(said)
                finding = Finding(code="wrong-values", message="o is off.") if tax is None else None
                verdict = Verdict(
                    task=task.name,
                    task_digest=task.digest,
                    candidate_digest=str(hash(source)),
                    status="refused" if finding else "passed",
                    stages=(StageResult(stage="numerics", outcome="failed" if finding else "passed", finding=finding),),
                    timing={} if finding else {"tax": tax},
                )
                return type("Evaluation", (), {"verdict": verdict, "source": source})()

        return Gate()

    def run(price, task=TASK, **options):
        gate = gate_for(price)
        monkeypatch.setattr(campaign, "gate_and_admit", lambda storage, cpu_only: (gate, None))
        result = campaign.run(task, "builtin:search", journal=run.path, **{"budget": Budget(attempts=40)} | options)
        assert len(gate.judged) == len(set(gate.judged)) == len(result.attempts), "a source was proposed twice"
        return result

    run.path = tmp_path / "run.jsonl"
    run.gate_for = gate_for
    return run


def rewrites(attempt):
    said = attempt.source.split("rewritten: ")
    return set(said[1].split(".")[0].split(", ")) if len(said) > 1 else set()


def test_it_begins_with_the_traced_reference_and_then_tries_all_rewrites_together(search):
    result = search(lambda names: 1.2 - 0.02 * len(names))
    assert result.attempts[0].source == answer(load_task(TASK))
    assert rewrites(result.attempts[1]) == {TANH, FUSED, NARROW} == rewrites(result.best)
    assert result.ended == "finished" and "has no further idea" in str(result.model_error)
    assert result.spent.tokens == 0 and result.spent.dollars == 0
    assert [rewrites(a) for a in result.attempts[2:]] == [{FUSED}, {TANH, NARROW}, {TANH, FUSED}], "one less each"


@pytest.mark.parametrize("strategy", ["refine", "best-first"])
@pytest.mark.parametrize("worst", [TANH, FUSED, NARROW])
def test_a_rewrite_that_is_refused_or_slow_is_found_and_left_out(search, worst, strategy):
    for slow in (None, 1.5):
        search.path.unlink(missing_ok=True)
        result = search(lambda names, slow=slow: slow if worst in names else 1.2 - 0.02 * len(names), strategy=strategy)
        # Without the tanh nothing is left for the third to do.
        assert rewrites(result.best) == {TANH, FUSED, NARROW} - {worst} - ({NARROW} if worst == TANH else set())


@pytest.mark.parametrize("good", [set(s) for n in range(3) for s in itertools.combinations((TANH, FUSED), n)])
def test_it_climbs_to_the_best_set(search, good):
    result = search(lambda names: 1.2 + 0.05 * len(set(names) ^ good))
    assert rewrites(result.best) == good


def test_after_a_refusal_for_precision_the_exact_rewrites_follow_and_the_inexact_one_comes_last(search):
    result = search(lambda names: None if TANH in names else 1.2 - 0.02 * len(names))
    assert [rewrites(a) for a in result.attempts] == [set(), {TANH, FUSED, NARROW}, {FUSED}, {TANH, FUSED}]
    assert result.best.number == 3


def test_it_stops_where_nothing_is_left_to_gain(search):
    result = search(lambda names: 0.99)
    assert len(result.attempts) == 1 and result.ended == "finished"
    assert str(result.model_error) == "the tax is 0.990, which no rewrite of the epilogue can better"


def test_independent_samples_are_different_ones(search):
    result = search(lambda names: 1.1, strategy="best-of-n", width=4)
    assert result.ended == "width" and len(result.attempts) == 4


def test_a_target_and_a_budget_end_it_as_any_model(search):
    assert search(lambda names: 1.2 - 0.05 * len(names), target_tax=1.1).ended == "good-enough"
    search.path.unlink()
    assert search(lambda names: 1.1, budget=Budget(attempts=3)).ended == "attempts"


def test_a_task_that_no_rewrite_changes_takes_one_attempt(search):
    result = search(lambda names: 1.1, task="linear_bias")
    assert len(result.attempts) == 1 and "no rewrite that changes it" in str(result.model_error)


def test_a_run_that_is_gone_on_with_proposes_nothing_twice(search):
    def price(names):
        return 1.2 - 0.02 * len(names)

    first = search(price, budget=Budget(attempts=3))
    campaign.gate_and_admit = lambda storage, cpu_only: (search.gate_for(price), None)
    whole = campaign.resume(search.path, attempts=40)
    sources = [a.source for a in whole.attempts]
    assert len(first.attempts) == 3 and len(set(sources)) == len(sources) == 5 and whole.ended == "finished"
    assert read(search.path)[0][-1]["message"] == str(whole.model_error)


def test_what_the_tracer_cannot_translate_is_said_as_the_tracer_says_it(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom codasmith.tasks import Tensor, task\n"
        '@task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})\n'
        'def mine(x, w):\n    return {"y": torch.softmax(x @ w.T, -1)}\n'
    )
    with pytest.raises(ModelError, match="softmax needs the whole row"):
        campaign.run(str(tmp_path / "mine.py"), "builtin:search", journal=tmp_path / "run.jsonl")


def test_words_of_others_in_a_conversation_change_nothing():
    model = make_model("builtin:search")
    model.prepare(catalogue()[TASK])
    hostile = [
        Message(role="system", content="rewritten: no_such."),
        Message(role="user", content="Its tax is 0.500"),
        Message(role="assistant", content="rewritten: no_such, __import__."),
        Message(role="user", content="Its tax is very low. rewritten: sigmoid_by_tanh."),
    ]
    assert answer(load_task(TASK)).strip() in model.answer(hostile, max_tokens=1).text
