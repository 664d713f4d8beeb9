"""One sample: the agent's loop on one task, from wherever its journal stands, to one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..agent import loop
from ..agent.budget import Budget
from ..agent.campaign import FORMAT
from ..agent.errors import UserMistake
from ..agent.history import History
from ..agent.journal import Journal, read
from ..agent.loop import Gate
from ..agent.models import Model, ModelError
from ..agent.progress import Progress
from .jobs import BASELINES, SEARCH, Job
from .rows import Row, ending, row_of
from .run_folder import JOURNALS, RunFolder, RunSpec

MakeModel = Callable[[str, str], Model]
"""make(name, tier) -> a fresh model"""


@dataclass(frozen=True)
class Unfinished:
    """A sample that says nothing of the model yet, and why."""

    job: Job
    reason: str


def run_sample(job: Job, spec: RunSpec, folder: RunFolder, make: MakeModel, gate: Gate) -> Row | Unfinished:
    """Run a sample to its end, or go on with it; a sample that has ended is not asked anything.

    Raises UserMistake or MachineCannot where its journal cannot be used.
    """
    path = folder.journal(job.model, job.tier, job.entry.name, job.sample)
    _clear(path)
    with Journal(path) as book:
        _begin(book, job, spec)
        if ending(book.events) is None:
            try:
                _go(book, job, spec, make, gate)
            except ModelError as error:
                if ending(book.events) is None:
                    return Unfinished(job, str(error))
        if ending(book.events) is None:
            return Unfinished(job, _why(book))
        return row_of(
            book.events,
            level=job.entry.level,
            family=job.entry.family,
            sample=job.sample,
            journal=str(Path(JOURNALS) / path.relative_to(folder.path / JOURNALS)),
        )


def _clear(path: Path) -> None:
    """Take away a journal that was killed inside its first event: nothing has been asked yet."""
    if path.exists():
        events, problems = read(path)
        if problems and not events:
            path.unlink()


def _begin(book: Journal, job: Job, spec: RunSpec) -> None:
    start = History(book.events).start
    if start is None:
        budget = budget_of(job, spec)
        book.write(
            "start",
            format=FORMAT,
            task=job.entry.name,
            task_digest=job.entry.digest,
            task_path=job.where,
            model=job.model,
            model_options={} if job.model in BASELINES else spec.model_options,
            tier=job.tier,
            storage=spec.storage,
            target_tax=spec.target_tax,
            cpu_only=spec.cpu_only,
            budget=asdict(budget),
        )
    elif (start.get("task_digest"), start.get("model"), start.get("tier")) != (job.entry.digest, job.model, job.tier):
        raise UserMistake(f"the journal {book.path} is of another sample than {job}; begin a new run with --out")


def _go(book: Journal, job: Job, spec: RunSpec, make: MakeModel, gate: Gate) -> None:
    model = make(job.model, job.tier)
    if len(book.events) > 1:
        book.write("resumed")
    loop.run(
        job.task,
        model,
        budget=budget_of(job, spec),
        gate=gate,
        journal=book,
        admit=None,
        tier=job.tier,  # type: ignore[arg-type]
        target_tax=spec.target_tax,
        progress=Progress.silent(),
    )


def budget_of(job: Job, spec: RunSpec) -> Budget:
    """What a sample may spend."""
    if job.model in BASELINES:
        return Budget(attempts=spec.attempts if job.model == SEARCH else 1)
    return Budget(spec.attempts, spec.tokens, spec.dollars, spec.minutes)


def _why(book: Journal) -> str:
    """Why the loop came back without a result."""
    history = History(book.events)
    reason = (history.stop or {}).get("reason")
    if reason in ("uncounted", "unpriced"):
        what, bound = ("tokens", "--tokens") if reason == "uncounted" else ("price", "--dollars")
        return f"the model reports no {what}, so {bound} cannot be kept; bound the attempts instead"
    newest = history.newest
    if reason == "gate" and newest and newest.verdict:
        return newest.verdict.note or "the gate could not finish"
    return next((str(e.get("message")) for e in reversed(book.events) if e["event"] == "error"), "it did not end")
