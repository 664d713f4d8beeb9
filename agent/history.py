"""What a run knows: its attempts, computed from the journal's events and from nothing else.

A running loop and a resumed one read the same state the same way: an event is written, then applied here.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..gate.verdict import CPU_STAGES, Verdict
from .budget import Spent
from .journal import Event, seconds_active

if TYPE_CHECKING:
    from .models import Message


@dataclass
class Attempt:
    """One question to the model, its answer, and what the gate said."""

    number: int
    prompt_digest: str = ""
    shown: tuple[int, ...] = ()
    """The earlier attempts that its question told of."""
    text: str | None = None
    """The model's answer, whole; None while it has not been given."""
    stop_reason: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    """The candidate: the answer's code block; None where there is none."""
    verdict: Verdict | None = None
    repeats: int | None = None
    """The earlier attempt with the same source or the same kernel, whose verdict this one shares."""
    entry: dict[str, Any] | None = None
    """Where the registry keeps it, once admitted."""
    not_kept: str | None = None
    """Why the registry did not take it, though it passed."""

    @property
    def gpu_seconds(self) -> float:
        """That the gate held the GPU for it."""
        stages = self.verdict.stages if self.verdict is not None and self.repeats is None else ()
        return sum(s.seconds for s in stages if s.stage not in CPU_STAGES)

    @property
    def rank(self) -> tuple[bool, float, int, int]:
        """An order of attempts: passed, then less tax, then more stages, then the earlier one."""
        if self.verdict is None:
            return (False, float("-inf"), -1, -self.number)
        tax = self.verdict.tax
        return (self.verdict.ok, -tax if tax is not None else float("-inf"), self.verdict.reached, -self.number)


class History:
    """The state of a run."""

    def __init__(self, events: Iterable[Event] = ()):
        self.start: Event | None = None
        self.stop: Event | None = None
        self.resumed: Event | None = None
        """The newest one."""
        self._attempts: dict[int, Attempt] = {}
        self._written: set[str] = set()
        self._failed_usages: list[dict[str, Any]] = []
        self._events: list[Event] = []
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Take one event in. Events that do not fit (their predecessors were lost) change nothing."""
        self._events.append(event)
        name, number = event["event"], event.get("attempt")
        if name == "start":
            self.start = event
        elif name == "stop":
            self.stop = event
        elif name == "resumed":
            self.stop, self.resumed = None, event
        elif name == "error" and isinstance(event.get("usage"), dict):
            self._failed_usages.append(event["usage"])
        if not isinstance(number, int):
            return
        attempt = self._attempts.setdefault(number, Attempt(number))
        if name == "prompt":
            attempt.prompt_digest = str(event.get("digest", ""))
            shown = event.get("shown")
            attempt.shown = tuple(n for n in shown if isinstance(n, int)) if isinstance(shown, list) else ()
            messages = event.get("messages")
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, dict) and "content" in message and isinstance(message.get("sha256"), str):
                    self._written.add(message["sha256"])
        elif name == "answer" and isinstance(event.get("text"), str):
            attempt.text = event["text"]
            attempt.stop_reason = str(event.get("stop_reason") or "")
            usage = event.get("usage")
            attempt.usage = usage if isinstance(usage, dict) else {}
        elif name == "verdict":
            try:
                attempt.verdict = Verdict.model_validate(event.get("verdict"))
            except ValidationError:
                return
            source, repeats = event.get("source"), event.get("repeats")
            attempt.source = source if isinstance(source, str) else None
            attempt.repeats = repeats if isinstance(repeats, int) else None
        elif name == "admitted":
            entry = event.get("entry")
            attempt.entry = entry if isinstance(entry, dict) else {}
        elif name == "error":
            attempt.not_kept = str(event.get("message"))

    @property
    def attempts(self) -> list[Attempt]:
        """Those that were answered, in order."""
        return [a for _, a in sorted(self._attempts.items()) if a.text is not None]

    @property
    def judged(self) -> list[Attempt]:
        return [a for a in self.attempts if a.verdict is not None]

    @property
    def best(self) -> Attempt | None:
        return max(self.judged, key=lambda a: a.rank, default=None)

    @property
    def newest(self) -> Attempt | None:
        return max(self.judged, key=lambda a: a.number, default=None)

    @property
    def repeats_in_a_row(self) -> int:
        """How many of the newest answers had all been given before."""
        return sum(1 for _ in itertools.takewhile(lambda a: a.repeats is not None, reversed(self.judged)))

    def next_numbers(self, count: int) -> list[int]:
        """The attempts to ask for: those that were asked since the last answer and not answered, then new ones."""
        answered = max((n for n, a in self._attempts.items() if a.text is not None or a.verdict is not None), default=0)
        return list(range(answered + 1, answered + 1 + count))

    def unfinished(self, *, admits: bool) -> list[Attempt]:
        """The answers that the gate has not finished with.

        They have no verdict, or one that claims nothing; or could be admitted here (admits) and are not yet.
        """
        return [a for a in self.attempts if self._is_unfinished(a, admits)]

    @staticmethod
    def _is_unfinished(attempt: Attempt, admits: bool) -> bool:
        if attempt.repeats is not None:
            return False
        if attempt.verdict is None or attempt.verdict.status == "failed":
            return True
        return admits and attempt.verdict.ok and attempt.entry is None and attempt.not_kept is None

    def twin(self, attempt: Attempt, source: str | None) -> Attempt | None:
        """The first attempt with exactly this source; where no code was found, with exactly this answer."""
        for earlier in self.judged:
            same = earlier.source == source and (source is not None or earlier.text == attempt.text)
            if same and earlier.number < attempt.number:
                return earlier
        return None

    def unwritten(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """The messages as the journal keeps them: each content once, later only by its digest."""
        kept = []
        for message in messages:
            sha = hashlib.sha256(message.content.encode("utf-8", "backslashreplace")).hexdigest()
            kept.append({"role": message.role, "sha256": sha})
            if sha not in self._written:
                kept[-1]["content"] = message.content
        return kept

    @property
    def spent(self) -> Spent:
        usages = [a.usage for a in self.attempts] + self._failed_usages
        return Spent(
            attempts=len(self.attempts),
            tokens=int(sum(_number(u.get("input_tokens")) + _number(u.get("output_tokens")) for u in usages)),
            cached=int(sum(_number(u.get("cached_tokens")) for u in usages)),
            output=int(sum(_number(u.get("output_tokens")) for u in usages)),
            dollars=sum(_number(u.get("dollars")) for u in usages),
            unpriced=any(u.get("dollars") is None for u in usages),
            uncounted=any(u.get("known") is False for u in usages),
            broken=int(sum(_number(u.get("broken")) for u in usages)),
            seconds=seconds_active(self._events),
            gpu_seconds=sum(a.gpu_seconds for a in self.judged),
            admitted=sum(a.entry is not None for a in self.judged),
        )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
