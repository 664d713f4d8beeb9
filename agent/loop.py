"""The loop: ask the model, take the code out of its answer, pass it through the gate, tell the model, repeat.

What a question tells of earlier attempts is the strategy's choice (`strategies`).  Every step is an event in the
journal, and the state is computed from the events (`history`); so the same loop starts a run and continues one that
was killed at any point, and never asks again for what was answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..gate.verdict import Finding, StageResult, Tier, Verdict
from .budget import Budget, Spent
from .conversation import conversation
from .errors import Interrupted
from .extract import extract
from .history import Attempt, History
from .journal import Journal
from .models import Answer, Model, ModelError, prompt_digest
from .progress import Progress
from .prompt import example_for
from .same_kernel import kernel_key, of_this, read_alone
from .stops import Stops
from .strategies import Refine, Strategy
from .together import ask_together

if TYPE_CHECKING:
    from ..tasks import Task

Gate = Callable[..., Any]
"""gate(task, source, tier=..., progress=...) -> an evaluation, which has a `verdict`."""
Admit = Callable[[Any, "Task", dict[str, str]], dict[str, Any]]
"""admit(evaluation, task, author) -> the registry's entry as plain data; raises ValueError where it refuses."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    task: str
    model: str
    ended: str
    """"good-enough"; "patience": no better attempt for as long as that says; "width": all samples are drawn; the
    budget that was spent: "attempts", "tokens", "dollars", "minutes", "gpu_seconds"; "repeats": the model gave the
    same answer again and again; "finished": it has nothing left to try; "model": it did not answer (see model_error
    for both); "gate": the gate could not finish; "uncounted", "unpriced": the model does not report what a budget
    bounds."""
    attempts: tuple[Attempt, ...]
    best: Attempt | None
    spent: Spent
    journal: Path
    model_error: ModelError | None = None
    """Why the model did not answer, where that ended it."""

    @property
    def status(self) -> str:
        """The best attempt's: "admitted", "passed", "checked", "refused" or "failed"; "none" without any."""
        if self.best is None or self.best.verdict is None:
            return "none"
        return "admitted" if self.best.entry is not None else self.best.verdict.status


def run(
    task: Task,
    model: Model,
    *,
    budget: Budget,
    gate: Gate,
    journal: Journal,
    admit: Admit | None = None,
    tier: Tier = "closed",
    target_tax: float | None = None,
    target_speedup: float | None = None,
    patience: int | None = None,
    strategy: Strategy | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run until a kernel is good enough or a budget is spent, from wherever the journal stands.

    admit: None where nothing can be admitted, as without a GPU.
    target_tax, target_speedup, patience: see `stops.Stops`. strategy: `refine` by default; see `strategies`.
    Raises ModelError where the model does not answer at all; once an attempt has its verdict, that ends the run.
    """
    if target_tax is None and target_speedup is None and patience is None:
        patience = getattr(model, "gives_up_after", None)
    stops, plan = Stops(target_tax, target_speedup, patience), strategy or Refine()
    state = _Run(task, model, budget, gate, journal, admit, tier, stops, plan, progress or Progress.silent())
    failure = None
    try:
        if hasattr(model, "prepare"):
            model.prepare(task)
        if hasattr(model, "recall"):
            model.recall([a.text or "" for a in state.history.attempts])
        answered = state.history.unfinished(admits=admit is not None)
        while not (ended := state.ended(answered)):
            answered = answered or state.ask()
            state.judge(answered.pop(0))
        state.record("stop", reason=ended)
    except KeyboardInterrupt:
        state.record("interrupted")
        raise Interrupted(f"stopped; go on with: codasmith resume {journal.path}") from None
    except ModelError as error:
        failure = error
        if error.kind == "finished" and state.history.judged:
            ended = "finished"
            state.record("stop", reason=ended, message=str(error))
        else:
            state.failed(error)
            if not state.history.judged:
                raise
            ended = "model"
    history = state.history
    return Result(
        task.name, model.name, ended, tuple(history.attempts), history.best, history.spent, journal.path, failure
    )


@dataclass
class _Run:
    """One run under way: its parts, and the history that its events add up to."""

    task: Task
    model: Model
    budget: Budget
    gate: Gate
    journal: Journal
    admit: Admit | None
    tier: Tier
    stops: Stops
    strategy: Strategy
    progress: Progress
    gate_failed: bool = False
    judged_one: bool = False
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(self.journal.events)

    def record(self, kind: str, **data: Any) -> None:
        self.history.apply(self.journal.write(kind, **data))

    def ended(self, answered: list[Attempt]) -> str:
        """Why the run is over; "" while it goes on.

        Answers are judged before anything else is asked; those of a round that the time does not suffice for are left
        to a `resume`.
        """
        if self.gate_failed:
            return "gate"
        if answered:
            return "minutes" if self.judged_one and self.budget.out_of_time(self.history.spent) else ""
        if reason := self.stops.ended_by(self.history, self.strategy):
            return reason
        if self.strategy.left(self.history) <= 0:
            return "width"
        limit = self.strategy.repeats
        if limit is not None and self.history.repeats_in_a_row >= limit:
            return "repeats"
        return self.budget.ended_by(self.history.spent) or ""

    def ask(self) -> list[Attempt]:
        """Put the next question, several times at once where that is meant, and return what was answered."""
        shown, spent = self.strategy.shown(self.history), self.history.spent
        messages = conversation(self.task, shown, tier=self.tier, target=self.stops.target)
        digest, numbers = prompt_digest(messages), self.history.next_numbers(self._at_once(spent))
        told = {"shown": [a.number for a in shown], "example": example_for(self.task)}
        for number in numbers:
            self.record("prompt", attempt=number, digest=digest, **told, messages=self.history.unwritten(messages))
        limit = self.budget.answer_tokens(spent)
        failures: list[ModelError] = []
        with self.progress.asking(numbers, self.budget, spent) as on_text:
            outcomes: Iterable[Answer | ModelError]
            if len(numbers) == 1:
                outcomes = [self.model.answer(messages, max_tokens=limit, on_text=on_text)]
            else:
                outcomes = ask_together(self.model, messages, len(numbers), max_tokens=limit, on_text=on_text)
            waiting = list(numbers)
            for outcome in outcomes:
                if isinstance(outcome, ModelError):
                    failures.append(outcome)
                else:
                    said = outcome.model_dump(mode="json")
                    self.record("answer", attempt=waiting.pop(0), prompt_digest=digest, **said)
        ends_it = failures.pop() if len(failures) == len(numbers) else None
        for failure in failures:
            self.failed(failure)
        if ends_it is not None:
            raise ends_it
        return [a for a in self.history.attempts if a.number in numbers]

    def failed(self, failure: ModelError) -> None:
        """Write down that the model did not answer, and what that cost."""
        usage = failure.usage.model_dump() if failure.usage else None
        self.record("error", what="model", failure=failure.kind, message=str(failure), usage=usage)

    def _at_once(self, spent: Spent) -> int:
        """How many questions to put at the same time.

        One at a time where tokens, dollars or the GPU are bounded: no bound is exceeded by more than one call.
        """
        bounded = (self.budget.tokens, self.budget.dollars, self.budget.gpu_seconds) != (None, None, None)
        if bounded or not getattr(self.model, "concurrent", False):
            return 1
        left = self.strategy.left(self.history)
        if self.budget.attempts is not None:
            left = min(left, self.budget.attempts - spent.attempts)
        return max(1, int(min(self.strategy.at_once, left)))

    def judge(self, attempt: Attempt) -> None:
        """Give the attempt its verdict, and keep it where it passed."""
        self.judged_one = True
        source = extract(attempt.text or "", attempt.stop_reason)
        code = source if isinstance(source, str) else None
        twin = self.history.twin(attempt, code)
        verdict = twin.verdict if twin else None
        if twin is None and code is not None:
            twin, verdict = self._equal(code)
        if twin and verdict:
            self._verdict(attempt, verdict, code, repeats=twin.number)
        elif isinstance(source, Finding):
            self._verdict(attempt, no_candidate(self.task, attempt, source, self.tier), None)
        else:
            with self.progress.moving("the gate reads the candidate"):
                evaluation = self.gate(self.task, source, tier=self.tier, progress=self.progress.stage)
            self._verdict(attempt, evaluation.verdict, source)
            if self.admit and evaluation.verdict.status == "passed":
                self._keep(attempt, evaluation)
        self.progress.judged(attempt)

    def _equal(self, source: str) -> tuple[Attempt | None, Verdict | None]:
        """The first attempt that gave the same kernel by another file, and its verdict as this file's.

        A finding that names a line holds for its own file only.
        """
        keys: dict[str, Attempt] = {}
        for earlier in self.history.judged:
            verdict = earlier.verdict
            if verdict is None or earlier.source is None or verdict.status == "failed":
                continue
            if not (verdict.finding and verdict.finding.line) and (key := kernel_key(verdict, earlier.source)):
                keys.setdefault(key, earlier)
        if not keys:
            return None, None
        own = read_alone(self.task, source, self.tier)
        twin = keys.get(kernel_key(own, source) or "")
        return twin, of_this(own, twin.verdict) if twin and twin.verdict else None

    def _verdict(self, attempt: Attempt, verdict: Verdict, source: str | None, **more: Any) -> None:
        self.record("verdict", attempt=attempt.number, source=source, verdict=verdict.model_dump(mode="json"), **more)
        self.gate_failed = verdict.status == "failed"

    def _keep(self, attempt: Attempt, evaluation: Any) -> None:
        assert self.admit is not None
        author = {"name": self.model.name, "prompt_digest": attempt.prompt_digest, "journal": self.journal.path.name}
        try:
            entry = self.admit(evaluation, self.task, author)
        except ValueError as error:
            self.record("error", what="admission", attempt=attempt.number, message=str(error))
        else:
            self.record("admitted", attempt=attempt.number, entry=entry)


def no_candidate(task: Task, attempt: Attempt, finding: Finding, tier: Tier) -> Verdict:
    """An answer without a candidate in it, in the form in which the gate speaks."""
    return Verdict(
        task=task.name,
        task_digest=task.digest,
        candidate_digest=hashlib.sha256((attempt.text or "").encode("utf-8", "backslashreplace")).hexdigest(),
        tier=tier,
        status="refused",
        stages=(StageResult(stage="read", outcome="failed", finding=finding),),
    )
