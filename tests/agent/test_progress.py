import io

import pytest
from codasmith.agent.budget import Budget, Spent
from codasmith.agent.history import Attempt
from codasmith.agent.progress import Progress
from codasmith.gate.verdict import Finding, StageResult, Verdict
from rich.console import Console


@pytest.fixture(params=[False, True], ids=["plain", "terminal"])
def screen(request):
    return io.StringIO(), request.param


def progress_on(screen):
    out, terminal = screen
    return Progress(Console(file=out, force_terminal=terminal, width=200))


def test_asking_says_what_is_left_and_how_much_was_answered(screen):
    with progress_on(screen).asking([2], Budget(attempts=3), Spent(attempts=1)) as on_text:
        on_text("a" * 1_200)
        on_text("[bold]")  # a model's words are no markup
    text = screen[0].getvalue()
    assert "attempt 2: asking (left: 2 attempts)" in text
    assert "attempt 2: answered, 1,206 characters" in text


def test_stages_are_lines_where_there_is_no_terminal():
    out = io.StringIO()
    progress = progress_on((out, False))
    with progress.moving("the gate"):
        progress.stage("compile", "7 [schedules]")
    assert out.getvalue() == "  compile: 7 [schedules]\n"


def test_a_refusal_is_said_with_stage_and_finding(screen):
    finding = Finding(code="x", message="o[0] is wrong.", remedy="Mend it.", line=3)
    stages = (StageResult(stage="interpret", outcome="failed", finding=finding),)
    verdict = Verdict(task="t", task_digest="d", candidate_digest="c", status="refused", stages=stages)
    progress_on(screen).judged(Attempt(4, verdict=verdict, repeats=2))
    text = screen[0].getvalue()
    assert "attempt 4: refused at interpret (the same as attempt 2): line 3: o[0] is wrong. Mend it." in text


def test_an_admission_is_said_with_its_tax_and_its_name(screen):
    verdict = Verdict(task="t", task_digest="d", candidate_digest="c", status="passed", timing={"tax": 1.0349})
    progress_on(screen).judged(Attempt(1, verdict=verdict, entry={"digest": "0123456789abcdef"}))
    assert "attempt 1: passed, tax 1.035, kept as 0123456789ab" in screen[0].getvalue()
