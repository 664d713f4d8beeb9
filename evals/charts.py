"""Charts as inline SVG, drawn here: three small ones, no library, no script.

Colours are fixed by place, eight that differ in lightness too; every line also carries its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .intervals import Estimate

COLOURS = ("#1f6f8b", "#d1495b", "#3d7a3a", "#8a5a00", "#6a4c93", "#c2571a", "#b03a8c", "#555555")
WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 14, 46
LETTER = 6.5
"""How wide one is, about."""


@dataclass(frozen=True)
class Axis:
    """One axis: its range, whether it is logarithmic, and where its ticks are."""

    low: float
    high: float
    ticks: Sequence[float]
    title: str
    text: Callable[[float], str] = "{:g}".format
    log: bool = False

    def place(self, value: float, start: float, end: float) -> float:
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, max(value, self.low)))
        share = min(max((at - low) / (high - low), 0.0), 1.0)
        return start + share * (end - start)


def curves(lines: Mapping[str, Sequence[tuple[float, float]]], x: Axis, y: Axis, mark: float | None = None) -> str:
    """A line a contestant, each stepping down. mark: a value of x to draw a rule at."""
    parts = _frame(x, y)
    if mark is not None:
        at = _x(x, mark)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="mark"/>')
    for number, (name, points) in enumerate(lines.items()):
        path = " ".join(f"{'M' if i == 0 else 'L'}{_x(x, a):.1f} {_y(y, b):.1f}" for i, (a, b) in enumerate(points))
        colour, dash = _style(number)
        look = f'fill="none" stroke="{colour}" stroke-width="2"{dash}'
        parts.append(f'<path d="{path}" {look}><title>{escape(name)}</title></path>')
    return _svg(parts, "Share of samples against the speed-up over the best baseline") + _legend(list(lines))


def strips(values: Mapping[str, Sequence[tuple[str, float]]], x: Axis, mark: float) -> str:
    """One row a contestant: a dot a task (name, value), and a bar at the median."""
    rows = [(name, found) for name, found in values.items() if found]
    height = TOP + BOTTOM + 34 * max(len(rows), 1)
    left = 200
    parts = [_text(left + (WIDTH - left - RIGHT) / 2, height - 8, x.title, "middle")]
    free = 0.0
    for tick in x.ticks:
        at, text = x.place(tick, left, WIDTH - RIGHT), x.text(tick)
        kind = "mark" if tick == mark else "grid"
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{height - BOTTOM}" class="{kind}"/>')
        if at - LETTER * len(text) / 2 > free:  # a line without its number, where two would run together
            parts.append(_text(at, height - BOTTOM + 16, text, "middle"))
            free = at + LETTER * len(text) / 2 + 4
    for number, (name, found) in enumerate(rows):
        middle = TOP + 34 * number + 17
        colour, _ = _style(list(values).index(name))
        parts.append(_text(left - 8, middle + 4, _short(name), "end"))
        for place, (task, value) in enumerate(sorted(found, key=lambda item: item[1])):
            offset = (place % 5 - 2) * 4
            parts.append(
                f'<circle cx="{x.place(value, left, WIDTH - RIGHT):.1f}" cy="{middle + offset:.1f}" r="3.2" '
                f'fill="{colour}" fill-opacity="0.55"><title>{escape(task)}: {value:.3f}</title></circle>'
            )
        ordered = sorted(value for _, value in found)
        at = x.place(ordered[len(ordered) // 2], left, WIDTH - RIGHT)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{middle - 13}" y2="{middle + 13}" stroke="#222" stroke-width="2"/>'
        )
    return _svg(parts, x.title, height)


def scatter(points: Mapping[str, tuple[float, Estimate]], x: Axis, y: Axis, names: Sequence[str]) -> str:
    """A point a contestant, with the interval of its height. names: all contestants, whose places give the colours."""
    parts = _frame(x, y)
    places = {name: (_x(x, cost), _y(y, quality.value)) for name, (cost, quality) in points.items()}
    taken = [
        (at - 6, at + 6, float(height))
        for name, (at, _) in places.items()
        for height in range(round(_y(y, points[name][1].high)), round(_y(y, points[name][1].low)) + 1, 6)
    ]
    for name, (_, quality) in points.items():
        (at, middle), colour = places[name], _style(names.index(name))[0]
        low, high = _y(y, quality.low), _y(y, quality.high)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
        parts.append(
            f'<circle cx="{at:.1f}" cy="{middle:.1f}" r="5" fill="{colour}"><title>{escape(name)}</title></circle>'
        )
        parts.append(_beside(at, middle, _short(name), taken))
    return _svg(parts, f"{y.title} against {x.title}")


def _beside(at: float, middle: float, text: str, taken: list[tuple[float, float, float]]) -> str:
    """A label beside a point, clear of what is taken (from, to, height), if there is room; its own place is taken."""
    width = LETTER * len(text)
    sides = [("start", at + 9, at + 9 + width), ("end", at - 9 - width, at - 9)]
    room = [s for s in sides if s[1] >= LEFT and s[2] <= WIDTH] or sides[:1]
    places = [(*side, middle + down) for down in (4, -11, 19, -26, 34) for side in room]
    clear = (p for p in places if not any(p[1] < b and a < p[2] and abs(p[3] - 4 - h) < 13 for a, b, h in taken))
    anchor, start, end, line = next(clear, places[0])
    taken.append((start, end, line - 4))
    return _text(start if anchor == "start" else end, line, text, anchor)


def log_ticks(low: float, high: float) -> list[float]:
    """Numbers 1, 2, 5, 10, ... that cover a range above zero; powers of ten alone, where those would be many."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)  # one more: logarithms round
    steps = [float(f"{m}e{d}") for d in decades for m in (1, 2, 5)]
    first = max(i for i, s in enumerate(steps) if s <= low)
    last = min(i for i, s in enumerate(steps) if s >= high and i > first)
    if last - first > 9:
        first, last = first // 3 * 3, -(-last // 3) * 3
        return steps[first : last + 1 : 3]
    return steps[first : last + 1]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover a range."""
    raw = max(high - low, 1e-9) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _frame(x: Axis, y: Axis) -> list[str]:
    parts = [
        _text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 8, x.title, "middle"),
        f'<text x="14" y="{TOP + (HEIGHT - TOP - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {TOP + (HEIGHT - TOP - BOTTOM) / 2})">{escape(y.title)}</text>',
    ]
    for tick in y.ticks:
        at = _y(y, tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(_text(LEFT - 6, at + 4, y.text(tick), "end"))
    parts += [_text(_x(x, tick), HEIGHT - BOTTOM + 16, x.text(tick), "middle") for tick in x.ticks]
    return parts


def _x(axis: Axis, value: float) -> float:
    return axis.place(value, LEFT, WIDTH - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return axis.place(value, HEIGHT - BOTTOM, TOP)


def _style(number: int) -> tuple[str, str]:
    dash = ("", ' stroke-dasharray="6 4"', ' stroke-dasharray="2 3"')[number // len(COLOURS) % 3]
    return COLOURS[number % len(COLOURS)], dash


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        '<li><svg width="26" height="10" aria-hidden="true"><line x1="0" x2="26" y1="5" y2="5" '
        f'stroke="{_style(i)[0]}" stroke-width="3"{_style(i)[1]}/></svg> {escape(name)}</li>'
        for i, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def _short(name: str) -> str:
    return name if len(name) <= 26 else name[:12] + "…" + name[-13:]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(parts: Sequence[str], title: str, height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
