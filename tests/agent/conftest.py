"""A gate that judges by words in the source, models that follow a script, and a task to solve."""

import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from codasmith.agent import loop
from codasmith.agent.budget import Budget
from codasmith.agent.journal import Journal, read
from codasmith.agent.models import Answer, ModelError, Usage
from codasmith.gate.verdict import Finding, StageResult, Verdict
from codasmith.tasks import load_task


@dataclass
class FakeEvaluation:
    verdict: Verdict
    source: str


class FakeGate:
    """Refuses a source that says WRONG, cannot finish one that says BROKEN, and passes the rest.

    `tax=1.08` in the source is its tax; without one, or on the CPU, it is checked only.
    """

    def __init__(self):
        self.judged = []

    def __call__(self, task, source, *, tier="closed", progress=None, **_):
        self.judged.append(source)
        if progress:
            progress("read", "reading")
        stages = [StageResult(stage="read", outcome="passed", seconds=0.01)]
        status, timing, note = "checked", {}, ""
        if "WRONG" in source:
            line = next(i for i, text in enumerate(source.splitlines(), 1) if "WRONG" in text)
            finding = Finding(code="wrong-values", message="o is off by 2.", remedy="Halve it.", line=line, output="o")
            stages.append(StageResult(stage="interpret", outcome="failed", seconds=0.2, finding=finding))
            status = "refused"
        elif "BROKEN" in source:
            status, note = "failed", "the driver went away"
        elif "tax=" in source:
            status = "passed"
            timing = {"tax": float(source.split("tax=")[1].split()[0])}
            stages += [StageResult(stage=s, outcome="passed") for s in ("interpret", "compile", "timing")]
        verdict = Verdict(
            task=task.name,
            task_digest=task.digest,
            candidate_digest=hashlib.sha256(source.encode()).hexdigest(),
            tier=tier,
            status=status,
            stages=tuple(stages),
            timing=timing,
            note=note,
        )
        return FakeEvaluation(verdict, source)


class Scripted:
    """A model that gives these answers in turn, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *answers, usage=None, before=None):
        self.answers = list(answers)
        self.usage = usage or Usage(input_tokens=100, output_tokens=20, dollars=0.01)
        self.before = before
        self.asked = []

    def answer(self, messages, *, max_tokens, on_text=None):
        self.asked.append(list(messages))
        if self.before:
            self.before()
        if not self.answers:
            raise ModelError("the script is at its end", "other")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if on_text:
            on_text(answer)
        return Answer(text=answer, usage=self.usage, model=self.name, seconds=0.5)


def block(comment):
    """An answer whose code is one line with this comment."""
    return f"Here it is.\n\n```python\nx = 1  # {comment}\n```\n"


def killed_after(path, events, start):
    """Run `start` in a child and kill it when the journal holds that many events; a child of its own, so that
    nothing of it is left but the journal."""
    pid = os.fork()
    if pid == 0:
        from codasmith.agent import journal as module

        write = module.Journal.write

        def write_then_hang(self, name, **data):
            event = write(self, name, **data)
            if len(self.events) == events:
                time.sleep(60)
            return event

        module.Journal.write = write_then_hang
        try:
            start()
        finally:
            os._exit(0)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (path.exists() and len(read(path)[0]) >= events):
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9


@pytest.fixture
def fake_gate():
    return FakeGate()


@pytest.fixture(scope="session")
def scripted():
    return Scripted


@pytest.fixture(scope="session")
def code():
    return block


@pytest.fixture(scope="session")
def task():
    return load_task("linear_bias")


@pytest.fixture(scope="session")
def examples():
    return Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def killed():
    return killed_after


@pytest.fixture
def told(tmp_path):
    """told(task, answer, stages): what an author who gives this answer is told, as the next question holds it.

    stages(task, source) are those that the gate ran; at least one of them is to fail.
    """

    def ask(task, answer, stages, tier="closed"):
        def gate(task, source, **_):
            verdict = Verdict(
                task=task.name,
                task_digest=task.digest,
                candidate_digest="c",
                tier=tier,
                status="refused",
                stages=tuple(stages(task, source)),
            )
            assert verdict.finding, "the mistake passed"
            return FakeEvaluation(verdict, source)

        is_code = answer.startswith(("from ", "import ", "@", "def "))
        model = Scripted(f"```python\n{answer}```" if is_code else answer, "I give up.")
        with Journal(tmp_path / "run.jsonl") as journal:
            loop.run(load_task(task), model, budget=Budget(attempts=2), gate=gate, journal=journal, tier=tier)
        return model.asked[1][-1].content

    return ask
