"""Replay: every answer of a journal through the gate again, with no model and no network, and what came out otherwise.

The answers come from the journal, so nothing is asked and nothing is admitted.  Two things are looked at: the verdict
(the stages that run in both places, their outcome and what was found), and whether the same question would be put
today, which is told and is no difference of verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .campaign import gate_and_admit, start_of, task_of
from .conversation import conversation
from .errors import MachineCannot, UserMistake
from .extract import extract
from .history import Attempt, History
from .journal import Event, read
from .loop import no_candidate
from .models import prompt_digest
from .progress import Progress
from .stops import Stops
from .strategies import make_strategy

if TYPE_CHECKING:
    from ..gate.verdict import StageResult, Verdict


@dataclass(frozen=True)
class Replayed:
    """One attempt, then and now."""

    number: int
    then: Verdict | None
    """None where the journal holds no verdict that claims anything: there is nothing to compare."""
    now: Verdict
    differences: tuple[str, ...] = ()
    """A sentence for each difference between the verdicts."""
    same_question: bool = True
    """Whether the prompt rendered today is the recorded one."""

    @property
    def uncompared(self) -> tuple[str, ...]:
        """The stages that ran then or now, and were skipped the other time."""
        return (*_skipped(self.then, self.now), *_skipped(self.now, self.then)) if self.then else ()


@dataclass(frozen=True)
class Replay:
    """A campaign, replayed."""

    task: str
    journal: Path
    attempts: tuple[Replayed, ...]
    problems: tuple[str, ...] = field(default=())
    """A sentence for each line of the journal that was damaged and left out."""

    @property
    def equal(self) -> bool:
        return not any(a.differences for a in self.attempts)

    @property
    def compared(self) -> int:
        return sum(a.then is not None for a in self.attempts)


def replay(journal: str | PathLike[str], *, cpu_only: bool = False, progress: Progress | None = None) -> Replay:
    """Judge every answer of a journal again.

    cpu_only: only the stages that need no GPU; so it is, too, for a campaign that was run that way.
    Raises UserMistake for a journal without answers or with another task, MachineCannot where the gate breaks.
    """
    path, progress = Path(journal), progress or Progress.silent()
    events, problems = read(path)
    history = History(events)
    start = start_of(history, path)
    if not history.attempts:
        raise UserMistake(f"the journal {path} holds no answer of a model, so there is nothing to replay")
    task = task_of(start, path)
    gate, _ = gate_and_admit(start["storage"], cpu_only or start["cpu_only"])
    questions = _questions(events)
    judged: dict[str, Verdict] = {}
    replayed = []
    for attempt in history.attempts:
        source = extract(attempt.text or "", attempt.stop_reason)
        if not isinstance(source, str):
            now = no_candidate(task, attempt, source, start["tier"])
        elif source in judged:
            now = judged[source]
        else:
            progress.say(f"attempt {attempt.number}: judging its answer again")
            with progress.moving("the gate reads the candidate"):
                now = gate(task, source, tier=start["tier"], progress=progress.stage).verdict
            if now.status == "failed":
                raise MachineCannot(f"the gate could not finish with attempt {attempt.number}: {now.note}")
            judged[source] = now
        then = attempt.verdict if attempt.verdict is not None and attempt.verdict.status != "failed" else None
        code = source if isinstance(source, str) else None
        differences = _differences(then, now) if then is not None else []
        if then is not None and code != attempt.source:
            differences.insert(0, "another file was taken out of the answer")
        same = attempt.number not in questions or _digest(task, start, questions[attempt.number]) == (
            attempt.prompt_digest
        )
        replayed.append(Replayed(attempt.number, then, now, tuple(differences), same))
    if not any(a.then for a in replayed):
        raise UserMistake(f"the journal {path} holds no verdict of the gate, so there is nothing to compare with")
    return Replay(task.name, path, tuple(replayed), tuple(problems))


def _questions(events: list[Event]) -> dict[int, list[Event]]:
    """What was known when each attempt's question was put, the last time that it was."""
    return {e["attempt"]: events[:i] for i, e in enumerate(events) if e["event"] == "prompt" and "attempt" in e}


def _digest(task: Any, start: Event, before: list[Event]) -> str:
    """The digest of the question that would be put today."""
    strategy = make_strategy(start.get("strategy", "refine"), start.get("width"))
    stops = Stops(start["target_tax"], start.get("target_speedup"))
    shown: list[Attempt] = strategy.shown(History(before))
    return prompt_digest(conversation(task, shown, tier=start["tier"], target=stops.target))


def _differences(then: Verdict, now: Verdict) -> list[str]:
    """In which stages the two verdicts differ. A stage that was skipped in one of them is not compared."""
    found = []
    mine, theirs = {s.stage: s for s in then.stages}, {s.stage: s for s in now.stages}
    for stage in dict.fromkeys([*mine, *theirs]):
        before, after = mine.get(stage), theirs.get(stage)
        if "skipped" in (before and before.outcome, after and after.outcome):
            continue
        if _stopped_before(before, mine.values()) or _stopped_before(after, theirs.values()):
            continue
        if _seen(before) != _seen(after):
            found.append(f"{stage}: {_words(before)}, and now {_words(after)}")
    return found


def _skipped(ran: Verdict, other: Verdict) -> list[str]:
    """The stages of one verdict that the other one skipped, or left out after a stage that it skipped."""
    outcomes = {s.stage: s.outcome for s in other.stages}
    rest = "skipped" if "skipped" in outcomes.values() else ""
    return [s.stage for s in ran.stages if s.outcome != "skipped" and outcomes.get(s.stage, rest) == "skipped"]


def _stopped_before(stage: StageResult | None, stages: Iterable[StageResult]) -> bool:
    """Whether a stage is missing because an earlier one failed or nothing ran it: that one is the difference."""
    return stage is None and any(s.outcome in ("failed", "skipped") for s in stages)


def _seen(stage: StageResult | None) -> tuple[Any, ...]:
    """What must be the same; the words of a finding may hold measured numbers, which differ in their last digits."""
    if stage is None:
        return ()
    finding = stage.finding
    return (stage.outcome, *((finding.code, finding.line, finding.output) if finding else ()))


def _words(stage: StageResult | None) -> str:
    if stage is None:
        return "was not run"
    if stage.finding is None:
        return stage.outcome
    line = f" in line {stage.finding.line}" if stage.finding.line else ""
    return f"failed ({stage.finding.code}{line}: {stage.finding.message})"
