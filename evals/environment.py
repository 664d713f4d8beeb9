"""The eval set for training: questions, and a reward from the gate's verdict. Plain functions for any trainer.

`taskset` wraps them for the `verifiers` library.  Train on held-out sets of other seeds than those you score on, and
never on the public set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from ..agent.extract import extract
from ..agent.feedback import feedback
from ..agent.history import Attempt
from ..agent.loop import Gate
from ..gate.verdict import Finding, StageResult, Verdict

if TYPE_CHECKING:
    from ..gate.verdict import Tier
    from ..tasks import Task
    from .evalset import LoadedSet

STEPS = ("read", "interpret", "compile", "tune", "numerics", "guards", "timing")
NOT_PASSED = 0.4
"""What the last stage before passing is worth; the stages share it evenly."""
PASSED = 0.5


class NoReward(RuntimeError):
    """The gate itself could not finish, so the answer has no reward: try again, never learn from it."""


class Question(BaseModel):
    """One task as a model is asked it."""

    model_config = ConfigDict(frozen=True)

    task: str
    digest: str
    where: str
    """What `load_task` takes."""
    system: str
    prompt: str


class Judged(BaseModel):
    """What became of an answer."""

    model_config = ConfigDict(frozen=True)

    reward: float
    verdict: Verdict
    feedback: str
    """The next user turn, where another attempt is given."""


def questions(loaded: LoadedSet, tier: Tier = "closed") -> Iterator[Question]:
    """The set as questions, exactly as the agent asks them."""
    from ..agent.prompt import system_text, task_text

    for entry in loaded.spec.tasks:
        task = loaded.tasks[entry.name]
        yield Question(
            task=entry.name,
            digest=entry.digest,
            where=loaded.where[entry.name],
            system=system_text(task, tier),
            prompt=task_text(task, tier),
        )


def reward(verdict: Verdict) -> float:
    """0 to 1: nothing for what is not read; up to 0.4 by the stages passed; 0.5 to 1 for what passed, by its tax.

    A tax of 1 gives 1.0, of 2 or more 0.5, and linear between.  Without a GPU, what is checked has 0.4 at most.
    What the guards or the clock refuse (writes outside, stale results, impossible times) gives 0: it is a fault that
    an optimiser must not climb.  Raises NoReward for a verdict that claims nothing.
    """
    if verdict.status == "failed":
        raise NoReward(verdict.note or "the gate could not finish")
    if verdict.status in ("passed", "admitted"):
        return PASSED + (1 - PASSED) * min(1.0, max(0.0, 2.0 - (verdict.tax if verdict.tax is not None else 2.0)))
    if any(s.outcome == "failed" and s.stage in ("guards", "timing", "sanitizer") for s in verdict.stages):
        return 0.0
    passed = {s.stage for s in verdict.stages if s.outcome == "passed"}
    if verdict.status == "checked":
        return NOT_PASSED
    return NOT_PASSED * sum(stage in passed for stage in STEPS) / len(STEPS)


def judge(task: Task, text: str, gate: Gate, tier: Tier = "closed", stop_reason: str = "end") -> Judged:
    """Take the code out of a model's answer, pass it through the gate, and reward it. gate: as for the agent's loop."""
    source = extract(text, stop_reason)
    if isinstance(source, Finding):
        verdict = Verdict(
            task=task.name,
            task_digest=task.digest,
            candidate_digest="",
            tier=tier,
            status="refused",
            stages=(StageResult(stage="read", outcome="failed", finding=source),),
        )
    else:
        verdict = gate(task, source, tier=tier, progress=lambda stage, line: None).verdict
    attempt = Attempt(1, text=text, source=source if isinstance(source, str) else None, verdict=verdict)
    return Judged(reward=reward(verdict), verdict=verdict, feedback=feedback(attempt))


def judge_batch(
    answers: Iterable[tuple[Task, str]], gate: Gate, tier: Tier = "closed", *, workers: int = 4
) -> list[Judged | NoReward]:
    """What became of many answers, in their order, `workers` of them at a time.

    gate: is called by several threads; `judging.judging` gives one that compiles side by side and times one at a time.
    An answer that has no reward stands as NoReward, and the others are judged all the same.
    """

    def one(answer: tuple[Task, str]) -> Judged | NoReward:
        try:
            return judge(*answer, gate, tier)
        except NoReward as reason:
            return reason

    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(one, answers))
