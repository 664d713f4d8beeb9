"""A campaign as one page that needs nothing else: timeline, plot, and each attempt's source with what it changed.

What a model wrote is hostile: the template escapes it, and the page's policy runs no script and loads nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from .campaign_view import AttemptView, Campaign
from .plot import Point, plot
from .rendering import cut, environment, packaged

SHOWN_CHARS = 20_000
"""Of one answer; the journal has all of it."""
SHOWN_LINES = 600
"""Of one file. It also bounds the time of the comparison, which a hostile file would make long."""


@dataclass(frozen=True)
class Line:
    """One line of a source as it is shown beside the one that it came from."""

    kind: str
    """ "same", "added", "removed" or "left-out"."""
    number: int | None
    text: str


def render_page(campaign: Campaign) -> str:
    """The page's text."""
    bases = {a.number: base_of(a, campaign.attempts) for a in campaign.attempts}
    shown = {a.number: compared(bases[a.number], a) for a in campaign.attempts}
    return (
        environment("pages", escape=True)
        .get_template("journal.html.j2")
        .render(
            campaign=campaign,
            bases=bases,
            sources=shown,
            plots=_plots(campaign),
            kind=_kind,
            cut=lambda text: cut(_visible(text), SHOWN_CHARS),
            visible=_visible,
            style=Markup(packaged("pages/journal.css")),
        )
    )


def base_of(attempt: AttemptView, attempts: Sequence[AttemptView]) -> AttemptView | None:
    """What a source is compared with: of the attempts that its question told of, or else of those before, the nearest
    in number that has a source."""
    if attempt.source is None:
        return None
    before = [a for a in attempts if a.number < attempt.number and a.source is not None]
    told = [a for a in before if a.number in attempt.shown]
    choice = told or before
    return choice[-1] if choice else None


def compared(base: AttemptView | None, attempt: AttemptView) -> list[Line]:
    """The attempt's source, with the lines that its base had instead."""
    after = _visible(attempt.source or "").splitlines()
    rest, after = after[SHOWN_LINES:], after[:SHOWN_LINES]
    before = _visible(base.source or "").splitlines()[:SHOWN_LINES] if base else after
    lines: list[Line] = []
    for kind, i, j, m, n in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            lines += [Line("same", k + 1, after[k]) for k in range(m, n)]
        else:
            lines += [Line("removed", None, text) for text in before[i:j]]
            lines += [Line("added", k + 1, after[k]) for k in range(m, n)]
    if rest:
        lines.append(Line("left-out", None, f"{len(rest):,} more lines are left out"))
    return lines


def _plots(campaign: Campaign) -> list[tuple[str, Markup]]:
    """Tax over attempts and over what was spent; stages passed where nothing was timed. One attempt makes no plot."""
    attempts = campaign.attempts
    if len(attempts) < 2:
        return []
    timed = any(a.tax is not None for a in attempts)
    what = "tax" if timed else "stages passed"
    heights = [a.tax if timed else float(len(a.passed)) for a in attempts]
    axes = [("attempt", [float(a.number) for a in attempts], True), (*_cost(attempts), False)]
    shown = []
    for title, places, whole in axes:
        points = [
            Point(place, height, f"attempt {a.number}: {a.status}", _kind(a))
            for place, height, a in zip(places, heights, attempts, strict=True)
        ]
        svg = plot(points, x=title, y=what, whole=whole, least=timed)
        caption = f"{what.capitalize()} over {title}" + "s" * whole
        shown.append((caption, Markup(svg)))
    return shown


def _cost(attempts: Sequence[AttemptView]) -> tuple[str, list[float]]:
    """What the attempts had cost when each was answered: dollars where they are known, else tokens, else seconds."""
    dollars, tokens = [a.dollars for a in attempts], [a.tokens for a in attempts]
    if any(dollars) and None not in dollars:
        return "dollars spent", list(accumulate(d or 0.0 for d in dollars))
    if any(tokens) and None not in tokens:
        return "tokens spent", [float(n) for n in accumulate(t or 0 for t in tokens)]
    return "seconds of model and gate", list(accumulate((a.seconds or 0.0) + a.gate_seconds for a in attempts))


def _kind(attempt: AttemptView) -> str:
    """The class of an attempt's colour."""
    if attempt.status.startswith("repeats"):
        return "repeats"
    return attempt.status if attempt.status in ("admitted", "passed", "checked", "refused") else "none"


def _visible(text: str) -> str:
    """Control characters and those that turn the direction of writing, as their codes, so that they hide nothing."""
    return "".join(
        c if c in "\n\t" or c.isprintable() or c == "\u00a0" else f"\\u{ord(c):04x}" for c in text.replace("\r\n", "\n")
    )
