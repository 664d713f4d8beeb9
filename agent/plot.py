"""One small plot as inline SVG: a number for each attempt against what had been spent, and the best so far as steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 16, 46
REFUSED = 26
"""Height of the band above the axis for attempts that have no number."""


@dataclass(frozen=True)
class Point:
    """One attempt."""

    x: float
    y: float | None
    """None where nothing was measured: it is drawn in the band below."""
    name: str
    """What the reader sees on hovering."""
    kind: str
    """The class of its colour in the page's style sheet."""


def plot(points: Sequence[Point], *, x: str, y: str, whole: bool = False, least: bool = True) -> str:
    """The SVG.

    x, y: the titles of the axes. whole: the x axis counts, so its ticks are whole numbers; else it begins at 0.
    least: whether the best is the least (a tax) or the greatest (stages passed).
    """
    values = [p.y for p in points if p.y is not None]
    across = _ticks(min(p.x for p in points) if whole else 0.0, max(p.x for p in points), whole=whole)
    up = _ticks(min(values, default=0.0), max(values, default=1.0), whole=not least)
    floor = HEIGHT - BOTTOM - (REFUSED if any(p.y is None for p in points) else 0)
    place_x = _scale(across, LEFT + 10, WIDTH - RIGHT)
    place_y = _scale(up, floor - 8, TOP)
    parts = [
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x, "middle"),
        f'<text x="14" y="{(TOP + floor) / 2:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + floor) / 2:.1f})">{escape(y)}</text>',
    ]
    for tick in up if values else ():
        at = place_y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(_text(LEFT - 6, at + 4, f"{tick:g}", "end"))
    parts += [_text(place_x(tick), HEIGHT - BOTTOM + 18, f"{tick:g}", "middle") for tick in across]
    if floor < HEIGHT - BOTTOM:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}" class="grid"/>')
        parts.append(_text(LEFT - 6, floor + REFUSED / 2 + 4, "refused", "end"))
    parts.append(_steps(points, place_x, place_y, min if least else max))
    for point in points:
        at = floor + REFUSED / 2 if point.y is None else place_y(point.y)
        parts.append(
            f'<circle cx="{place_x(point.x):.1f}" cy="{at:.1f}" r="5" class="{point.kind}">'
            f"<title>{escape(point.name)}</title></circle>"
        )
    title = escape(f"{y} against {x}", quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def _steps(
    points: Sequence[Point],
    place_x: Callable[[float], float],
    place_y: Callable[[float], float],
    better: Callable[[float, float], float],
) -> str:
    """The best so far."""
    path, best = "", None
    for point in (p for p in points if p.y is not None):
        assert point.y is not None
        now = point.y if best is None else better(best, point.y)
        path += (
            f"M{place_x(point.x):.1f} {place_y(now):.1f}"
            if best is None
            else (f"H{place_x(point.x):.1f}V{place_y(now):.1f}")
        )
        best = now
    return f'<path d="{path}" class="best"/>' if path else ""


def _scale(ticks: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = ticks[0], ticks[-1]
    return lambda value: start + (value - low) / ((high - low) or 1.0) * (end - start)


def _ticks(low: float, high: float, *, whole: bool, count: int = 5) -> list[float]:
    """Round numbers that cover a range."""
    if high - low < 1e-9:
        low, high = (low - 1, high + 1) if whole else (low - abs(low) * 0.05, high + (abs(high) * 0.05 or 1.0))
        low = max(low, 0.0)
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
