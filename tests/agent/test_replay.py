"""Campaigns judged again: equal, different, and what cannot be compared."""

import json
import socket
from pathlib import Path

import pytest
from codasmith.agent import campaign
from codasmith.agent.budget import Budget
from codasmith.agent.cli import app
from codasmith.agent.errors import MachineCannot, UserMistake
from codasmith.agent.replay import replay
from codasmith.gate.verdict import Finding, StageResult
from codasmith.tasks import load_task
from typer.testing import CliRunner

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def recorded(tmp_path, task, fake_gate, scripted, code, monkeypatch):
    """A campaign of four attempts, and no network from then on."""
    monkeypatch.setattr(campaign, "gate_and_admit", lambda *_: (fake_gate, None))
    monkeypatch.setattr("codasmith.agent.replay.gate_and_admit", lambda *_: (fake_gate, None))
    path = tmp_path / "run.jsonl"
    answers = ["no code", code("WRONG a"), code("WRONG a"), code("tax=1.1 b")]
    campaign.run(task, scripted(*answers), strategy="best-first", budget=Budget(attempts=4), journal=path)

    def no_network(*_, **__):
        raise AssertionError("a replay asked the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    fake_gate.judged.clear()
    return path


def test_a_campaign_replays_to_the_same_verdicts_and_questions(recorded, fake_gate):
    before = recorded.read_bytes()
    found = replay(recorded)
    assert found.equal and found.compared == 4
    assert [a.now.status for a in found.attempts] == ["refused", "refused", "refused", "passed"]
    assert all(a.same_question for a in found.attempts)
    assert len(fake_gate.judged) == 2  # the repeated file once
    assert recorded.read_bytes() == before


def test_a_verdict_that_came_out_otherwise_is_told_by_its_stage(recorded, fake_gate):
    recorded.write_text(recorded.read_text().replace('"code": "wrong-values"', '"code": "transposed"'))
    found = replay(recorded)
    assert not found.equal
    assert [bool(a.differences) for a in found.attempts] == [False, True, True, False]
    (words,) = found.attempts[1].differences
    assert words.startswith("interpret: failed (transposed in line 1: o is off by 2.), and now failed (wrong-values")


def test_a_candidate_that_no_longer_passes_is_one_difference(recorded, monkeypatch, fake_gate):
    def stricter(task, source, **more):
        evaluation = fake_gate(task, source, **more)
        finding = Finding(code="new-rule", message="No.")
        stages = (StageResult(stage="read", outcome="failed", finding=finding),)
        evaluation.verdict = evaluation.verdict.model_copy(update={"status": "refused", "stages": stages})
        return evaluation

    monkeypatch.setattr("codasmith.agent.replay.gate_and_admit", lambda *_: (stricter, None))
    found = replay(recorded)
    assert found.attempts[3].differences == ("read: passed, and now failed (new-rule: No.)",)


def test_another_file_taken_out_of_the_same_answer_is_a_difference(recorded):
    recorded.write_text(recorded.read_text().replace('"source": "x = 1  # tax=1.1 b', '"source": "x = 2  # tax=1.1 b'))
    assert "another file was taken out of the answer" in replay(recorded).attempts[3].differences


def test_stages_that_do_not_run_here_are_not_compared(recorded, monkeypatch, fake_gate):
    def without_gpu(task, source, **more):
        evaluation = fake_gate(task, source.replace("tax=", ""), **more)
        if evaluation.verdict.ok:
            ran = [StageResult(stage=s, outcome="passed") for s in ("read", "interpret", "compile")]
            skipped = [StageResult(stage="timing", outcome="skipped", note="a Hopper GPU is needed")]
            evaluation.verdict = evaluation.verdict.model_copy(update={"stages": (*ran, *skipped)})
        return evaluation

    monkeypatch.setattr("codasmith.agent.replay.gate_and_admit", lambda *_: (without_gpu, None))
    found = replay(recorded)
    assert found.equal and found.attempts[3].now.status == "checked" and found.attempts[3].then.status == "passed"
    ran_then = {s.stage for s in found.attempts[3].then.stages} - {"read", "interpret", "compile"}
    assert set(found.attempts[3].uncompared) == ran_then and "timing" in ran_then, "and that is said"
    assert not any(a.uncompared for a in found.attempts[:3])
    monkeypatch.setattr("codasmith.agent.replay.gate_and_admit", lambda *_: (fake_gate, None))
    assert not any(a.uncompared for a in replay(recorded).attempts)


def test_a_prompt_that_is_worded_otherwise_today_is_told_and_is_no_difference(recorded, monkeypatch):
    monkeypatch.setattr("codasmith.agent.conversation.task_text", lambda *_: "Another wording.")
    found = replay(recorded)
    assert found.equal and not any(a.same_question for a in found.attempts)


def test_a_run_killed_and_gone_on_with_replays_too(tmp_path, task, fake_gate, scripted, code, recorded):
    events = recorded.read_text().splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(events[:5]) + events[5][:40])  # inside the second answer
    campaign.resume(path, model=scripted(code("WRONG a"), code("WRONG a"), code("tax=1.1 b")))
    found = replay(path)
    assert found.equal and found.compared == 4 and all(a.same_question for a in found.attempts)
    assert "line 6" in found.problems[0]


def test_a_gate_that_cannot_finish_is_no_difference_but_an_end(recorded, monkeypatch, fake_gate):
    broken = lambda task, source, **more: fake_gate(task, "BROKEN", **more)  # noqa: E731
    monkeypatch.setattr("codasmith.agent.replay.gate_and_admit", lambda *_: (broken, None))
    with pytest.raises(MachineCannot, match="attempt 2: the driver went away"):
        replay(recorded)


def test_journals_without_anything_to_compare_are_refused(tmp_path, recorded):
    events = recorded.read_text().splitlines(keepends=True)
    path = tmp_path / "part.jsonl"
    path.write_text(events[0])
    with pytest.raises(UserMistake, match="holds no answer"):
        replay(path)
    path.write_text("".join(events[:3]))
    with pytest.raises(UserMistake, match="holds no verdict"):
        replay(path)
    with pytest.raises(UserMistake, match="cannot be read"):
        replay(tmp_path / "none.jsonl")
    path.write_text("".join([json.dumps({**json.loads(events[0]), "task_digest": "0"}) + "\n", *events[1:]]))
    with pytest.raises(UserMistake, match="has changed"):
        replay(path)


def test_the_real_gate_says_the_same_twice(tmp_path, scripted):
    """read and interpret, for real, on candidates that are refused there."""

    def answer(body):
        return f"```python\nfrom codasmith.primitives import epilogue\n\n@epilogue\ndef f(acc, bias):\n    {body}\n```"

    path = tmp_path / "run.jsonl"
    answers = [answer("return {'y': acc.T}"), answer("return {'y': acc - bias}"), answer("return {'o': acc + bias}")]
    campaign.run("linear_bias", scripted(*answers), budget=Budget(attempts=3), journal=path, cpu_only=True)
    found = replay(path)
    assert found.equal and found.compared == 3
    assert [a.now.finding.code for a in found.attempts] == [a.then.finding.code for a in found.attempts]
    assert len({a.now.finding.code for a in found.attempts}) == 3


@pytest.mark.parametrize("journal", ["tracer-rmsnorm_swiglu.jsonl", "search-linear_silu.jsonl"])
def test_a_campaign_in_the_documentation_is_what_its_journal_shows_and_its_task_has_not_changed(journal):
    path = DOCS / "results" / journal
    start = json.loads(path.read_text().splitlines()[0])
    assert load_task(start["task"]).digest == start["task_digest"], "a replay would be refused"
    shown = CliRunner().invoke(app, ["journal", "show", str(path)]).stdout
    lines = [line.rstrip() for line in shown.rstrip().splitlines()]
    assert len(lines) > 20 and "\n".join(lines) in (DOCS / "agent.md").read_text()
