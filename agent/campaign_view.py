"""What a journal tells of a campaign, as plain rows: for the terminal, for the page and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from .budget import Spent
from .errors import UserMistake
from .history import Attempt, History
from .journal import Event, read
from .stops import speedup


@dataclass(frozen=True)
class AttemptView:
    """One attempt."""

    number: int
    shown: tuple[int, ...]
    """The attempts that its question told of."""
    status: str
    """The verdict's, "admitted" where the registry kept it, "repeats 2" for an answer given before, or "unjudged"."""
    passed: tuple[str, ...]
    """The stages that passed."""
    stage: str
    """The stage that refused it; "" where none did."""
    finding: str
    """What was found, with line and remedy, or why the gate could not finish."""
    line: int | None
    tax: float | None
    speedup: float | None
    tokens: int | None
    """None where the model did not report them."""
    dollars: float | None
    seconds: float | None
    """That the model took to answer."""
    gate_seconds: float
    gpu_seconds: float
    """That the gate held the GPU, of those."""
    source: str | None
    text: str
    """The whole answer."""
    stages: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        return self.status in ("admitted", "passed", "checked")

    @property
    def tokens_text(self) -> str:
        return "-" if self.tokens is None else f"{self.tokens:,}"

    @property
    def dollars_text(self) -> str:
        return "-" if self.dollars is None else f"{self.dollars:.4f}"


@dataclass(frozen=True)
class Campaign:
    """A campaign as its journal tells it."""

    journal: Path
    task: str
    facts: tuple[tuple[str, str], ...]
    """How it was begun: pairs of a word and what is said of it."""
    attempts: tuple[AttemptView, ...]
    best: AttemptView | None
    spent: Spent
    ending: str
    """One sentence."""
    problems: tuple[str, ...] = field(default=())
    """A sentence for each line of the journal that was damaged."""

    def document(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "journal": str(self.journal),
            "begun": dict(self.facts),
            "ending": self.ending,
            "spent": asdict(self.spent),
            "best": self.best.number if self.best else None,
            "problems": list(self.problems),
            "attempts": [asdict(a) for a in self.attempts],
        }


def view(journal: str | PathLike[str]) -> Campaign:
    """Read a campaign. Raises UserMistake for a file that is no journal."""
    path = Path(journal)
    events, problems = read(path)
    history = History(events)
    if history.start is None and not history.attempts:
        raise UserMistake(f"{path} holds no run; give a journal that `codasmith run` wrote")
    start = history.start or {}
    seconds = {e.get("attempt"): e.get("seconds") for e in events if e["event"] == "answer"}
    attempts = tuple(_attempt(a, seconds.get(a.number)) for a in history.attempts)
    best = history.best
    return Campaign(
        journal=path,
        task=str(start.get("task", "unknown")),
        facts=tuple(_facts(start, next((e for e in reversed(events) if e["event"] == "resumed"), start))),
        attempts=attempts,
        best=next((a for a in attempts if best is not None and a.number == best.number), None),
        spent=history.spent,
        ending=_ending(history, events),
        problems=tuple(problems),
    )


def _attempt(attempt: Attempt, seconds: Any) -> AttemptView:
    verdict, usage = attempt.verdict, attempt.usage
    stages = verdict.stages if verdict else ()
    finding = verdict.finding if verdict else None
    if verdict is None:
        status = "unjudged"
    elif attempt.repeats is not None:
        status = f"repeats {attempt.repeats}"
    else:
        status = "admitted" if attempt.entry is not None else verdict.status
    counted = [usage.get("input_tokens"), usage.get("output_tokens")] if usage.get("known", True) else []
    numbers = [n for n in counted if isinstance(n, int)]
    dollars = usage.get("dollars")
    return AttemptView(
        number=attempt.number,
        shown=attempt.shown,
        status=status,
        passed=tuple(s.stage for s in stages if s.outcome == "passed"),
        stage=next((s.stage for s in stages if s.outcome == "failed"), ""),
        finding=str(finding) if finding else (verdict.note if verdict else ""),
        line=finding.line if finding else None,
        tax=verdict.tax if verdict else None,
        speedup=speedup(verdict) if verdict else None,
        tokens=sum(numbers) if numbers else None,
        dollars=float(dollars) if isinstance(dollars, int | float) else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        gate_seconds=0.0 if attempt.repeats is not None else sum(s.seconds for s in stages),
        gpu_seconds=attempt.gpu_seconds,
        source=attempt.source,
        text=attempt.text or "",
        stages=tuple(
            {
                "stage": s.stage,
                "outcome": s.outcome,
                "seconds": s.seconds,
                "seen": str(s.finding) if s.finding else s.note,
            }
            for s in stages
        ),
    )


def _facts(start: Event, last: Event) -> Iterable[tuple[str, str]]:
    """How the campaign was begun, in words; what an older journal does not say is left out.

    last: the event that it went on with, which may have other bounds.
    """
    width = f", width {start['width']}" if start.get("width") else ""
    budget = last.get("budget", start.get("budget"))
    bounds = budget if isinstance(budget, dict) else {}
    targets = {
        "tax": start.get("target_tax"),
        "speed-up": start.get("target_speedup"),
        "patience": last.get("patience", start.get("patience")),
    }
    facts = {
        "task": start.get("task"),
        "digest": str(start.get("task_digest", ""))[:16],
        "model": start.get("model"),
        "tier": f"{start.get('tier', 'closed')}, {start.get('storage', 'bf16')}",
        "strategy": f"{start.get('strategy', 'refine')}{width}",
        "budget": ", ".join(f"{v:g} {k}" for k, v in bounds.items() if _is_number(v)),
        "goals": ", ".join(f"{k} {v:g}" for k, v in targets.items() if _is_number(v)),
        "begun": _moment(start.get("time")) + (", without a GPU" if start.get("cpu_only") else ""),
    }
    return [(name, str(value)) for name, value in facts.items() if value]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _moment(time: object) -> str:
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M:%S UTC") if isinstance(time, str) else ""


def _ending(history: History, events: list[Event]) -> str:
    """How it ended and what it took, in one sentence."""
    took = str(history.spent)
    if history.stop is not None:
        why = f" ({history.stop['message']})" if history.stop.get("message") else ""
        return f"Ended: {history.stop.get('reason', 'unknown')}{why}; {took}."
    last = events[-1] if events else {}
    if last.get("event") == "interrupted":
        return f"Stopped by Ctrl-C; {took}."
    if last.get("event") == "error":
        return f"Ended by an error: {last.get('message')}; {took}."
    return f"Not ended; {took}."
