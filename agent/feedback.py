"""What the model is told of its earlier attempts, cut to a budget of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..gate.verdict import Finding
from .history import Attempt
from .measured import measured
from .rendering import cut, fence, one_line, render
from .wrong_values import KNOWN, family_of, wrong_values

if TYPE_CHECKING:
    from ..tasks import Task
    from .models import Message

CHARS_PER_TOKEN = 3
"""Of source and numbers, on the safe side; English has four."""
SHOWN_TOKENS = 8_000
"""Of all earlier attempts together, so that a whole question stays under 12,000."""
DETAIL_CHARS = 3_000
"""The most of a compiler's text or a list of wrong values that is worth reading."""


def attempt_turns(
    shown: Sequence[Attempt], *, tokens: int = SHOWN_TOKENS, target: str | None = None, task: Task | None = None
) -> list[Message]:
    """Earlier attempts as turns of the conversation, each with what the gate said.

    None is left out: where they are longer than the budget, the longest are cut in their middle.
    """
    from .models import Message

    pairs = [(_answer(a), feedback(a, target=target, task=task)) for a in shown]
    room, turns = tokens * CHARS_PER_TOKEN, {}
    shortest_first = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
    for left, i in zip(range(len(pairs), 0, -1), shortest_first, strict=True):
        said, told = pairs[i]
        share = room // left  # what a short attempt leaves goes to the longer ones
        if len(said) + len(told) > share:
            told = cut(told, max(share // 2, share - len(said)))
            said = cut(said, share - len(told))
        room -= len(said) + len(told)
        turns[i] = [Message(role="assistant", content=said), Message(role="user", content=told)]
    return [message for i in sorted(turns) for message in turns[i]]


def feedback(attempt: Attempt, *, target: str | None = None, retry: bool = True, task: Task | None = None) -> str:
    """What the gate said of one attempt, as the model reads it.

    target: what to reach, such as "1.050". retry: whether a refused file is asked for again. task: lets a kernel that
        passed be told what it must move.
    """
    verdict = attempt.verdict
    if verdict is None:
        raise ValueError(f"attempt {attempt.number} has no verdict to speak of")
    if verdict.ok:
        told = {"tax": verdict.tax, "target": target, "measured": measured(verdict, task)}
        return _even(render("feedback.j2", repeats=attempt.repeats, ok=True, **told))
    finding = verdict.finding or Finding(code="gate", message=verdict.note)
    stage = next((s.stage for s in verdict.stages if s.outcome == "failed"), "gate")
    numeric = "kernel_max" in finding.details or "worst" in finding.details
    text = render(
        "feedback.j2",
        repeats=attempt.repeats,
        retry=retry,
        ok=False,
        passed=[s.stage for s in verdict.stages if s.outcome == "passed"],
        stage=stage,
        code=finding.code,
        output=one_line(finding.output) if finding.output else None,
        message=fence(cut(finding.message, DETAIL_CHARS)),
        remedy=fence(cut(finding.remedy, DETAIL_CHARS)) if finding.remedy else "",
        line=finding.line,
        quoted=_quoted(attempt.source, finding.line),
        seen=wrong_values(finding.details, finding.message) if numeric else [],
        family=family_of(finding.details),
        details=_details(finding.details, KNOWN if numeric else ()),
    )
    return _even(text)


def _even(text: str) -> str:
    """One empty line where the templates leave several."""
    return re.sub(r"\n{3,}", "\n\n", text)


def _answer(attempt: Attempt) -> str:
    """Its code alone, without the thinking around it; the whole answer where no code was found."""
    if attempt.source is not None:
        return f"```python\n{attempt.source.rstrip()}\n```"
    return (attempt.text or "").strip() or "(an empty answer)"


def _quoted(source: str | None, line: int | None) -> str:
    lines = (source or "").splitlines()
    if line is None or not 1 <= line <= len(lines):
        return ""
    return fence(cut(lines[line - 1].strip(), 400))


def _details(details: dict[str, Any], told: Sequence[str]) -> str:
    """All that the lines above have not told of; "" where nothing is left."""
    parts = []
    for key, value in details.items():
        if key in told:
            continue
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        parts.append(f"{key}: {text}")
    return fence(cut("\n".join(parts), DETAIL_CHARS)) if parts else ""
