"""The tax of a kernel over the shapes that were timed: bars in a terminal, an SVG, or a PNG if matplotlib is there."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from .errors import RegistryError
from .record import Evidence, Measure, Record

CELLS, FEWEST = 40, 10
"""Width of the longest bar in a terminal that is wide enough, and in one that is not."""
_LEAST, _ROOM = 0.9, 0.05
_EIGHTHS = " ▏▎▍▌▋▊▉█"
BARS, LINE, LETTER, RIGHT, TOP, BOTTOM = 380, 26, 7, 90, 40, 46


@dataclass(frozen=True)
class Bar:
    """One shape: the tax of the schedule that won there."""

    label: str
    tax: float
    low: float
    high: float

    @staticmethod
    def of(label: str, tax: Measure) -> Bar:
        ends = (tax.value if end is None else end for end in (tax.low, tax.high))
        return Bar(label, tax.value, *ends)

    def __str__(self) -> str:
        return f"{self.tax:.3f}" + (f" [{self.low:.3f}, {self.high:.3f}]" if self.low != self.high else "")


def bars_of(evidence: Evidence) -> list[Bar]:
    """In the record's order; shapes without a tax are left out."""
    found = []
    for row in evidence.workloads:
        best = next((b.schedule for b in evidence.best if b.sizes == row.workload.sizes), None)
        timing = next((t for t in row.timings if t.schedule == best and t.tax), None)
        timing = timing or next((t for t in row.timings if t.tax), None)
        if timing is not None and timing.tax is not None:
            found.append(Bar.of(row.workload.label, timing.tax))
    return found


def in_terminal(evidence: Evidence) -> RenderableType | None:
    """Bars that begin at a tax of 0.9, with a rule at 1.0; None where nothing was timed."""
    bars = bars_of(evidence)
    if not bars:
        return None
    return _Bars(f"tax over shapes, {evidence.storage}; bars begin at {_LEAST}, ┆ is 1.00 (a free epilogue)", bars)


@dataclass(frozen=True)
class _Bars:
    """As wide as the terminal has room for: a bar that is cut off would say less than its number."""

    title: str
    bars: list[Bar]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        taken = max(len(bar.label) for bar in self.bars) + max(len(str(bar)) for bar in self.bars) + 2
        cells = max(min(CELLS, options.max_width - taken), FEWEST)
        scale = cells / (_most(self.bars) - _LEAST)
        table = Table.grid(padding=(0, 1))
        for bar in self.bars:
            drawn = _drawn((bar.tax - _LEAST) * scale, (1.0 - _LEAST) * scale, cells)
            table.add_row(bar.label, Text(drawn, no_wrap=True), str(bar))
        yield Text(self.title)
        yield table


def save(record: Record, name: str, path: Path) -> None:
    """Write the plot of all storage dtypes to a .svg or .png file.

    Raises RegistryError, in one sentence, for another ending, for a record without times, where matplotlib is
    needed and not installed, and where the file cannot be written.
    """
    series = {e.storage: bars for e in record.evidence if (bars := bars_of(e))}
    if not series:
        raise RegistryError(f"{name} was not timed at any shape, so there is nothing to plot")
    if path.suffix not in (".svg", ".png"):
        raise RegistryError(f"a plot cannot be written to {path}; name a file that ends in .svg or .png")
    try:
        if path.suffix == ".svg":
            path.write_text(svg(series, name), encoding="utf-8")
        else:
            _png(series, name, path)
    except OSError as error:
        raise RegistryError(f"the plot cannot be written to {path}: {error.strerror or error}") from None


def svg(series: dict[str, list[Bar]], name: str) -> str:
    """One bar a shape and storage dtype, with its interval and a rule at 1.00."""
    rows = [bar for bars in series.values() for bar in bars]
    most, height = _most(rows), TOP + LINE * len(rows) + BOTTOM
    left = LETTER * max(len(bar.label) for bar in rows) + 24
    width = left + BARS + RIGHT

    def x(tax: float) -> float:
        return left + (max(tax, _LEAST) - _LEAST) / (most - _LEAST) * BARS

    floor = height - BOTTOM
    parts = [f'<text x="{left}" y="20" font-weight="bold">{escape(name)}</text>']
    for number, bar in enumerate(rows):
        y = TOP + LINE * number
        at = [x(v) for v in (bar.tax, bar.low, bar.high)]
        parts += [
            f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{left}" y="{y + 4}" width="{at[0] - left:.1f}" height="{LINE - 10}" fill="#1f6f8b"/>',
            f'<line x1="{at[1]:.1f}" x2="{at[2]:.1f}" y1="{y + 12}" y2="{y + 12}" stroke="#222" stroke-width="2"/>',
            f'<text x="{max(at) + 6:.1f}" y="{y + 16}">{bar.tax:.3f}</text>',
        ]
    parts += [
        f'<line x1="{x(1.0):.1f}" x2="{x(1.0):.1f}" y1="{TOP - 6}" y2="{floor}" stroke="#222" stroke-dasharray="4 3"/>',
        f'<text x="{x(1.0):.1f}" y="{floor + 18}" text-anchor="middle">1.00</text>',
        f'<text x="{left}" y="{height - 8}">tax: time over the bare GEMM, with 95 % intervals</text>',
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'{head} font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


def _png(series: dict[str, list[Bar]], name: str, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RegistryError(
            "a PNG needs matplotlib, which is not installed; install it, or name a file that ends in .svg"
        ) from None
    rows = [bar for bars in series.values() for bar in bars][::-1]
    figure = Figure(figsize=(8, 1.2 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    values = [bar.tax for bar in rows]
    errors = [[b.tax - b.low for b in rows], [b.high - b.tax for b in rows]]
    axes.barh([b.label for b in rows], values, xerr=errors, color="#1f6f8b")
    axes.axvline(1.0, color="#222222", linestyle="--", linewidth=1)
    axes.set(xlim=(_LEAST, _most(rows)), xlabel="tax: time over the bare GEMM, with 95 % intervals", title=name)
    figure.savefig(path, dpi=150)


def _most(bars: list[Bar]) -> float:
    return max(1.0, *(b.high for b in bars)) + _ROOM


def _drawn(cells: float, rule: float, room: int) -> str:
    """A bar of so many of the cells that there are, to an eighth, with a rule where it does not reach it."""
    eighths = max(round(cells * 8), 0)
    bar = _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    padded = bar.ljust(room)
    at = int(rule)
    return padded[:at] + ("┆" if at >= len(bar) else padded[at]) + padded[at + 1 :]
