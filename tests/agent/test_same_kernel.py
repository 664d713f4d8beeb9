"""Answers that differ by a comment, a name or their order are one kernel, and are judged once."""

from pathlib import Path

import pytest
from codasmith import verified_kernels
from codasmith.agent import loop
from codasmith.agent.budget import Budget
from codasmith.agent.journal import Journal, read
from codasmith.agent.same_kernel import kernel_key, read_alone
from codasmith.gate.verdict import Finding, StageResult
from codasmith.tasks import load_task

CLOSED = "from codasmith.primitives import epilogue\n\n@epilogue\ndef f(acc, bias):\n    return {'y': acc + bias}\n"
SAME = (
    "# thought through again\nfrom codasmith.primitives import epilogue\n\n\n"
    "@epilogue\ndef linear_bias(acc, bias):\n    y = acc + bias  # the sum\n    return {'y': y}\n"
)
OTHER = CLOSED.replace("acc + bias", "acc - bias")
OPEN = (
    "from quack.epilogue import gemm_epilogue\nfrom quack.epilogue.ops import RowVecLoad\n\nMAIN = 'y'\n\n"
    "@gemm_epilogue(ops={'bias': RowVecLoad('bias')})\ndef epilogue(acc, bias):\n    return {'D': acc + bias}\n"
)


@pytest.fixture
def campaign(task, scripted, tmp_path):
    """campaign(*sources): their attempts, and what the gate was sent. It reads for real, then says what `finish` says;
    each has a tax of its own."""

    def run(*sources, tier="closed", finish=None):
        sent = []

        def gate(task, source, *, tier="closed", progress=None):
            sent.append(source)
            verdict = read_alone(task, source, tier)
            assert verdict.ok, verdict.finding
            more = finish or StageResult(stage="timing", outcome="passed", seconds=5.0)
            change = {"stages": (*verdict.stages, more), "timing": {"tax": 1.5 + len(sent) / 10}}
            status = "refused" if more.outcome == "failed" else "passed"
            return type("Evaluation", (), {"verdict": verdict.model_copy(update=change | {"status": status})})()

        model = scripted(*[f"```python\n{s}```" for s in sources])
        with Journal(tmp_path / "run.jsonl") as journal:
            result = loop.run(
                task, model, budget=Budget(len(sources)), gate=gate, journal=journal, tier=tier, target_tax=1.0
            )
        return result, sent, model

    return run


def test_a_file_that_differs_by_comments_and_names_is_not_judged_again(campaign, tmp_path):
    result, sent, _ = campaign(CLOSED, SAME, OTHER)
    first, second, third = result.attempts
    assert sent == [CLOSED, OTHER]
    assert (first.repeats, second.repeats, third.repeats) == (None, 1, None)
    assert first.verdict.tax == second.verdict.tax != third.verdict.tax
    assert second.verdict.candidate_digest != first.verdict.candidate_digest, "each has its own file's digest"
    assert second.source == SAME and result.spent.gpu_seconds == 10.0
    assert [e.get("repeats") for e in read(tmp_path / "run.jsonl")[0] if e["event"] == "verdict"] == [None, 1, None]


def test_the_model_is_told_that_it_was_the_same_kernel(campaign):
    _, _, model = campaign(CLOSED, SAME, OTHER)
    assert "same as your answer 1" in model.asked[2][-1].content


def test_in_the_open_tier_comments_alone_make_no_other_kernel(campaign):
    changed = OPEN.replace("MAIN", "# the sum\nMAIN")
    result, sent, _ = campaign(OPEN, changed, OPEN.replace("acc + bias", "bias + acc"), tier="cutedsl")
    assert sent[:1] == [OPEN] and len(sent) == 2 and [a.repeats for a in result.attempts] == [None, 1, None]


def test_a_finding_on_a_line_holds_for_its_own_file_only(campaign):
    finding = Finding(code="x", message="Wrong here.", line=5)
    failed = StageResult(stage="interpret", outcome="failed", finding=finding)
    assert len(campaign(CLOSED, SAME, finish=failed)[1]) == 2


def test_a_finding_without_a_line_holds_for_every_equal_file(campaign):
    failed = StageResult(stage="numerics", outcome="failed", finding=Finding(code="wrong-values", message="y is off."))
    assert len(campaign(CLOSED, SAME, finish=failed)[1]) == 1


def test_what_cannot_be_read_has_no_kernel():
    task = load_task("linear_bias")
    broken = read_alone(task, "acc.T", "closed")
    assert broken.status == "refused" and kernel_key(broken, "acc.T") is None
    keys = {kernel_key(read_alone(task, source, "closed"), source) for source in (CLOSED, SAME, OTHER)}
    assert len(keys) == 2 and None not in keys


def test_a_program_is_known_by_the_graphs_of_all_its_products():
    task = load_task("mlp_swiglu")
    source = (Path(verified_kernels.__file__).parent / "hand_written" / "programs" / "mlp_swiglu.py").read_text()
    key = kernel_key(read_alone(task, source, "closed"), source)
    assert key and key == kernel_key(read_alone(task, f"{source}\n# again\n", "closed"), source)
