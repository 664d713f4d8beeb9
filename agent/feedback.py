"""What the model is told of its earlier attempts, cut to a budget of tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .history import Attempt
from .prompt import fence, one_line, render

if TYPE_CHECKING:
    from ..gate.verdict import Verdict
    from .models import Message

CHARS_PER_TOKEN = 4
DETAIL_CHARS = 3_000
"""The most of a compiler's text or a list of wrong values that is worth reading."""


def attempt_turns(shown: Sequence[Attempt], *, tokens: int = 12_000, target: str | None = None) -> list[Message]:
    """Earlier attempts as turns of the conversation, each with what the gate said.

    Where they are longer than the budget, all but the last are left out, and that one is cut in its middle.
    """
    from .models import Message

    pairs = [(_answer(a), feedback(a, target=target)) for a in shown]
    room = tokens * CHARS_PER_TOKEN
    if sum(len(said) + len(told) for said, told in pairs) > room:
        said, told = pairs[-1]
        told = cut(told, room // 2)
        pairs = [(cut(said, room - len(told)), told)]
    return [
        m for said, told in pairs for m in (Message(role="assistant", content=said), Message(role="user", content=told))
    ]


def feedback(attempt: Attempt, *, target: str | None = None, retry: bool = True) -> str:
    """What the gate said of one attempt, as the model reads it.

    target: what to reach, such as "1.050". retry: whether a refused file is asked for again.
    """
    verdict = attempt.verdict
    if verdict is None:
        raise ValueError(f"attempt {attempt.number} has no verdict to speak of")
    finding = verdict.finding
    stage = next((s for s in verdict.stages if s.outcome == "failed"), None)
    return render(
        "feedback.j2",
        repeats=attempt.repeats,
        retry=retry,
        ok=verdict.ok,
        tax=verdict.tax,
        target=target,
        measured=_measured(verdict) if verdict.ok else [],
        passed=[s.stage for s in verdict.stages if s.outcome == "passed"],
        stage=stage.stage if stage else "gate",
        output=one_line(finding.output) if finding and finding.output else None,
        message=fence(cut(finding.message if finding else verdict.note, DETAIL_CHARS)),
        remedy=fence(cut(finding.remedy, DETAIL_CHARS)) if finding and finding.remedy else "",
        line=finding.line if finding else None,
        quoted=_quoted(attempt.source, finding.line) if finding else "",
        details=_details(finding.details) if finding and finding.details else "",
    )


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters: the beginning and the end, with a note of what is missing between."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit:,} characters left out ...]\n"
    half = max(1, (limit - len(note)) // 2)
    return text[:half] + note + text[-half:]


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


def _details(details: dict[str, Any]) -> str:
    parts = []
    for key, value in details.items():
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        parts.append(f"{key}: {text}")
    return fence(cut("\n".join(parts), DETAIL_CHARS))


def _measured(verdict: Verdict) -> list[str]:
    """What compiling and timing showed, a line each."""
    lines = [f"{s.stage}: {s.note}" for s in verdict.stages if s.stage in ("compile", "tune") and s.note]
    for row in verdict.timing.get("workloads", []):
        sizes = " ".join(f"{symbol}{size}" for symbol, size in row["workload"]["sizes"].items())
        numbers = {
            "tax": row.get("tax"),
            "over torch.compile": row.get("over_compile"),
            "share of the roofline": row.get("sol"),
        }
        shown = [f"{name} {_number(value):.3f}" for name, value in numbers.items() if value is not None]
        lines.append(f"{sizes}, schedule {row.get('schedule', 'unknown')}: {', '.join(shown)}")
    return [one_line(line, 200) for line in lines[:12]]


def _number(value: Any) -> float:
    """A measure, with or without its interval."""
    return float(value["value"] if isinstance(value, dict) else value)
