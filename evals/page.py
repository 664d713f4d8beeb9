"""report.html: one page that needs nothing else; scores, charts, and every task by every contestant with its source.

What models wrote is shown as text only: the template escapes it, and the page's policy runs no script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ..agent.history import History
from ..agent.rendering import cut, environment, packaged
from . import charts, table
from .archive import ARCHIVE, events_of
from .asked import command_of
from .charts import Axis, log_ticks, nice_ticks
from .complete import complete
from .results import Cell, Results, best_sample, label
from .rows import Row
from .scores import FAST, WITHIN, Group, Score

SHOWN_ATTEMPTS = 10
SHOWN_CHARS = 4_000
"""Of one answer; the journal beside the page has all of it."""


def render_page(results: Results, rows: Sequence[Row], folder: Path) -> str:
    """The page's text. folder: where the rows' journals are; what is missing there is left out."""
    rows = sorted(rows, key=lambda r: r.key)
    by = {name: [r for r in rows if label(r) == name] for name in dict.fromkeys(s.label for s in results.scores)}
    contestants = {name: found for name, found in by.items() if found}
    cells = {(c.task, c.contestant): c for c in results.cells}
    names = [e.name for e in results.eval_set.tasks if any((e.name, c) in cells for c in contestants)]
    scored = complete(results.run, results.eval_set, rows).rows
    script = _file("page.js")
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            results=results,
            scores=[_score(s, results.measured) for s in results.scores],
            leagues=_leagues(results),
            groups=_groups(results),
            entries={e.name: e for e in results.eval_set.tasks},
            tasks=names,
            contestants=list(contestants),
            cells=cells,
            shade=lambda cell: _shade(cell, results.measured),
            anchor=_anchor,
            breakable=lambda name: re.sub(r"[:/_-]", "\\g<0>\u200b", name),
            details=_details(contestants, folder),
            charts=_charts(results, {n: [r for r in scored if label(r) == n] for n in contestants}),
            command=command_of(results.run),
            archive=ARCHIVE if (folder / ARCHIVE).is_file() else None,
            table=table,
            style=Markup(_file("page.css")),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def fast_curve(rows: Sequence[Row], points: Sequence[float]) -> list[tuple[float, float]]:
    """fast_p at each p: mean over tasks of the share of samples that passed and are more than p times as fast."""
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    return [
        (p, sum(sum(r.solved and (r.speedup or 0.0) > p for r in t) / len(t) for t in tasks.values()) / len(tasks))
        for p in points
    ]


def _leagues(results: Results) -> list[tuple[str, list[str], bool]]:
    """The tables of scores: a title, the columns, and whether the libraries' baselines are in it."""
    what = "pass" if results.measured else "checked"
    most = max((k for s in results.scores for k in s.pass_at), default=1)
    shares = [f"{what}@1"] + ([f"{what}@{most}"] if most > 1 else [])
    if not results.measured:
        return [
            ("", ["rank", "model", "tasks", "samples", *shares], True),
            ("Cost of each sample that was checked", ["model", "attempts", "tokens", "dollars"], False),
        ]
    fast = [f"> {p:g}x" for p in FAST]
    within = [f"tax ≤ {t:.2f}" for t in WITHIN]
    return [
        ("", ["rank", "model", "tasks", "samples", "speed-up, all", *shares, fast[0]], True),
        ("Speed over the best baseline", ["model", "speed-up, solved", *fast, "of hand-written"], True),
        ("Tax", ["model", "tax", *within], True),
        ("Cost of each sample that passed", ["model", "attempts", "tokens", "dollars", "GPU seconds"], False),
    ]


def _groups(results: Results) -> list[tuple[str, str, int, dict[str, Group]]]:
    """A line a kind of task: how it is sorted, the kind, how many tasks, and each contestant's scores."""
    lines: dict[tuple[str, str], dict[str, Group]] = {}
    for score in results.scores:
        for group in () if score.library else score.groups:
            lines.setdefault((group.by, group.value), {})[score.label] = group
    found = ((kind, lines[kind]) for kind in table.in_order(lines))
    return [(by, value, max(g.tasks for g in groups.values()), groups) for (by, value), groups in found]


def _score(score: Score, measured: bool) -> dict[str, tuple[str, float | str | None]]:
    """A row of the leaderboard: for each column, what is shown and what it is sorted by."""
    shown: dict[str, tuple[str, float | str | None]] = {
        "rank": (table.rank(score), score.rank[0] if score.rank else None),
        "model": (score.label, score.label),
        "tasks": (str(score.tasks), score.tasks),
        "samples": (str(score.samples), score.samples),
    }
    for what in ("pass", "checked"):
        shown |= {f"{what}@{k}": (table.percent(e), e.value) for k, e in score.pass_at.items()}
    if measured:
        shown |= {f"> {p}x": (table.percent(e), e.value) for p, e in score.fast.items()}
        shown |= {f"tax ≤ {t}": (table.percent(e), e.value) for t, e in score.within.items()}
        factors = {"speed-up, all": score.speedup_all, "speed-up, solved": score.speedup_solved}
        factors["of hand-written"] = score.of_hand_written
        shown |= {k: (table.factor(e), e.value) for k, e in factors.items() if e}
        if score.tax:
            shown["tax"] = (table.factor(score.tax, 3), score.tax.value)
    costs = {"attempts": (score.attempts, ""), "tokens": (score.tokens, ""), "dollars": (score.dollars, "$")}
    costs["GPU seconds"] = (score.gpu_seconds, "")
    return shown | {k: (table.amount(e, unit), e.value) for k, (e, unit) in costs.items() if e}


def _charts(results: Results, contestants: dict[str, list[Row]]) -> list[tuple[str, str, Markup]]:
    """Title, one sentence, and the drawing of each chart."""
    found = []
    if results.measured and any(r.speedup for rows in contestants.values() for r in rows):
        found += [_fast_chart(contestants), _tax_chart(contestants)]
    cost = _cost_chart(results, contestants)
    return found + ([cost] if cost else [])


def _fast_chart(contestants: dict[str, list[Row]]) -> tuple[str, str, Markup]:
    points = [0.5 + i / 100 for i in range(151)]
    x = Axis(0.5, 2.0, (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0), "p, times the best baseline")
    y = Axis(0.0, 1.0, (0, 0.25, 0.5, 0.75, 1.0), "share of samples", "{:.0%}".format)
    lines = {name: fast_curve(rows, points) for name, rows in contestants.items()}
    text = "Share of samples that passed and are more than p times as fast as the best of eager and torch.compile."
    return "Fast and right", text, Markup(charts.curves(lines, x, y, mark=1.0))


def _tax_chart(contestants: dict[str, list[Row]]) -> tuple[str, str, Markup]:
    values = {name: _best_taxes(rows) for name, rows in contestants.items()}
    largest = max(tax for found in values.values() for _, tax in found)
    steps = (1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)
    high = next((t for t in steps if t >= max(largest, 1.1)), largest)
    ticks = [t for t in steps if t <= high and (high <= 1.5 or t not in (1.02, 1.05, 1.3))]
    x = Axis(0.97, high, ticks, "tax: time over the bare GEMM", log=True)
    text = "The best kernel of each task; the bar is the median. At 1.00 the epilogue is free."
    return "Tax", text, Markup(charts.strips(values, x, mark=1.0))


def _best_taxes(rows: Sequence[Row]) -> list[tuple[str, float]]:
    best: dict[str, float] = {}
    for row in rows:
        if row.solved and row.tax:
            best[row.task] = min(row.tax, best.get(row.task, row.tax))
    return sorted(best.items())


def _cost_chart(results: Results, contestants: dict[str, list[Row]]) -> tuple[str, str, Markup] | None:
    asked = [s for s in results.scores if not s.library and s.label in contestants and s.total_tokens]
    priced = [s for s in asked if s.total_dollars and not s.incomplete_costs]
    shown = priced or [s for s in asked if not s.incomplete_costs]
    points = {}
    for s in shown:
        quality = s.speedup_all if results.measured else s.pass_at.get(1)
        if quality:
            points[s.label] = ((s.total_dollars if priced else s.total_tokens) / s.samples, quality)
    if not points:
        return None
    costs = [cost for cost, _ in points.values()]
    ends = [e for _, quality in points.values() for e in (quality.low, quality.high)]
    wide = max(costs) > 5 * min(costs)
    across = log_ticks(min(costs), max(costs)) if wide else nice_ticks(0.0, max(costs))
    up = nice_ticks(min(*ends, 1.0), max(*ends, 1.0)) if results.measured else [0.0, 0.25, 0.5, 0.75, 1.0]
    unit = "dollars" if priced else "tokens"
    x = Axis(across[0], across[-1], across, f"{unit} a sample", "{:,g}".format, log=wide)
    y = Axis(up[0], up[-1], up, "speed-up, all tasks" if results.measured else "checked@1")
    text = f"What a sample costs in {unit}, against the score, with its 95 % interval."
    if left_out := [s.label for s in asked if s.label not in points]:
        text += f" Not drawn, for want of {'a price' if priced else 'a count'}: {', '.join(left_out)}."
    return "Cost against quality", text, Markup(charts.scatter(points, x, y, list(contestants)))


def _details(contestants: dict[str, list[Row]], folder: Path) -> list[dict[str, Any]]:
    """For every cell: all its samples in a line each, and the best one whole."""
    found = []
    for name, rows in contestants.items():
        tasks: dict[str, list[Row]] = {}
        for row in rows:
            tasks.setdefault(row.task, []).append(row)
        for task, samples in tasks.items():
            best = best_sample(samples)
            attempts = History(events_of(folder, best.journal)).attempts if best.journal else []
            chosen = next((a for a in attempts if a.number == best.best), None)
            left_out = max(0, len(attempts) - SHOWN_ATTEMPTS)
            found.append(
                {
                    "contestant": name,
                    "task": task,
                    "samples": samples,
                    "best": best,
                    "verdict": chosen.verdict if chosen else None,
                    "attempts": attempts[: SHOWN_ATTEMPTS // 2] + attempts[left_out + SHOWN_ATTEMPTS // 2 :],
                    "left_out": left_out,
                }
            )
    return found


def _shade(cell: Cell, measured: bool) -> str:
    """The class of a matrix cell."""
    if not cell.passed:
        return "none" if cell.status == "none" else "failed"
    if not measured:
        return "checked"
    return "slow" if (cell.speedup or 1.0) <= 1.0 else "free" if (cell.tax or 9.0) <= WITHIN[1] else "fast"


def _anchor(task: str, contestant: str) -> str:
    return "s-" + hashlib.sha256(f"{task}\0{contestant}".encode()).hexdigest()[:12]


def _shortened(text: str | None) -> str:
    return cut(text or "", SHOWN_CHARS)


@cache
def _templates() -> jinja2.Environment:
    templates = environment("report", escape=True, package=__package__)
    templates.filters["shortened"] = _shortened
    return templates


def _file(name: str) -> str:
    return packaged(f"report/{name}", __package__)
