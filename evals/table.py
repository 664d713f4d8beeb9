"""The scores in the terminal. Columns of speed exist only where a GPU measured."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .intervals import Cost, Estimate
from .results import Results
from .scores import FAST, WITHIN, Group, Score


def show(console: Console, results: Results) -> None:
    """The leaderboard, costs, comparisons and groups, then what a reader must know."""
    speed = results.measured and any(s.tax for s in results.scores)
    tables = [_leaderboard(results), *([_speed(results)] if speed else []), _costs(results)]
    tables += [*([_pairs(results)] if results.pairs else []), _groups(results)]
    for table in tables:
        console.print(table)
        console.print()
    for note in results.notes:
        console.print(f"- {escape(note)}", highlight=False, soft_wrap=True)


def percent(estimate: Estimate | None) -> str:
    """Such as "62 % (48-75)"."""
    if estimate is None:
        return "-"
    to = " to " if estimate.low < 0 else "-"
    return f"{100 * estimate.value:.0f} % ({100 * estimate.low:.0f}{to}{100 * estimate.high:.0f})"


def factor(estimate: Estimate | None, digits: int = 2) -> str:
    """Such as "1.21 (1.10-1.33)"."""
    if estimate is None:
        return "-"
    return f"{estimate.value:.{digits}f} ({estimate.low:.{digits}f}-{estimate.high:.{digits}f})"


def amount(cost: Cost | None, unit: str = "") -> str:
    """Such as "$0.042 (0.031-0.058)"."""
    if cost is None:
        return "-"
    low, high = ("?" if end is None else _plain(end) for end in (cost.low, cost.high))
    return f"{unit}{_plain(cost.value)}" + (f" ({low}-{high})" if cost.low != cost.high else "")


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def probability(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def rank(score: Score) -> str:
    if score.rank is None:
        return ""
    low, high = score.rank
    return str(low) if low == high else f"{low}-{high}"


def _leaderboard(results: Results) -> Table:
    most = max((k for s in results.scores for k in s.pass_at), default=1)
    what = "pass" if results.measured else "checked"
    table = _table("Scores (mean over tasks, 95 % intervals)", "rank", "model", "tasks", f"{what}@1")
    if most > 1:
        table.add_column(f"{what}@{most}", justify="right")
    if results.measured:
        table.add_column("speed-up, all tasks", justify="right")
        for p in FAST:
            table.add_column(f"> {p:g}x", justify="right")
    for score in results.scores:
        cells = [rank(score), escape(score.label), str(score.tasks), percent(score.pass_at.get(1))]
        cells += [percent(score.pass_at.get(most))] if most > 1 else []
        if results.measured:
            cells.append(factor(score.speedup_all))
            cells += [_short(score.fast.get(f"{p:g}")) for p in FAST]
        table.add_row(*cells)
    return table


def _speed(results: Results) -> Table:
    columns = [f"tax <= {t:.2f}" for t in WITHIN]
    table = _table("Speed", "model", "tax", *columns, "speed-up, solved tasks", "of hand-written")
    for s in results.scores:
        shares = [_short(s.within.get(f"{t:.2f}")) for t in WITHIN]
        table.add_row(escape(s.label), factor(s.tax, 3), *shares, factor(s.speedup_solved), factor(s.of_hand_written))
    return table


def _costs(results: Results) -> Table:
    kernel = "kernel that passed" if results.measured else "kernel that was checked"
    columns = ["model", "attempts", "tokens", "dollars"] + (["GPU seconds"] if results.measured else [])
    table = _table(f"Cost of each {kernel}", *columns, "dollars in all")
    for s in results.scores:
        if s.library:
            continue
        costs = [amount(s.attempts), amount(s.tokens), amount(s.dollars, "$")]
        costs += [amount(s.gpu_seconds)] if results.measured else []
        total = f"${s.total_dollars:.2f}" + (" and more" if "prices" in s.incomplete_costs else "")
        table.add_row(escape(s.label), *costs, total)
    return table


def _pairs(results: Results) -> Table:
    how = "speed-up, first over second" if results.measured else "checked, first less second"
    table = _table("Comparisons, paired by task", "first", "second", "tasks", how, "p", "p, corrected")
    for pair in results.pairs:
        shown = factor(pair.difference, 3) if results.measured else percent(pair.difference)
        chances = probability(pair.p), probability(pair.p_corrected)
        table.add_row(escape(pair.first), escape(pair.second), str(pair.tasks), shown, *chances)
    return table


def _groups(results: Results) -> Table:
    """A line a kind, a column a model: pass@1 and the speed-up over all tasks of the kind."""
    asked = [s for s in results.scores if not s.library]
    what = "pass@1, speed-up over all tasks" if results.measured else "checked@1"
    table = _table(f"By kind of task: {what}", "by", "", "tasks", *(escape(s.label) for s in asked))
    groups = {(s.label, g.by, g.value): g for s in asked for g in s.groups}
    for by, value in in_order((g.by, g.value) for s in asked for g in s.groups):
        found = [groups.get((s.label, by, value)) for s in asked]
        tasks = max(g.tasks for g in found if g)
        table.add_row(by, value, str(tasks), *(kind(g) if g else "-" for g in found))
    return table


def in_order(kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sorts of tasks and their kinds, each once: levels, then families, then what is published."""
    sorts = ("level", "family", "published")
    return sorted(set(kinds), key=lambda kind: (sorts.index(kind[0]), kind[1]))


def kind(group: Group) -> str:
    """Such as "64 %, 1.16"."""
    speed = f", {group.speedup_all.value:.2f}" if group.speedup_all else ""
    return _short(group.pass_1) + speed


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        words = column in ("model", "first", "second", "by", "")
        table.add_column(column, justify="left" if words else "right", no_wrap=column == "model")
    return table


def _short(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{100 * estimate.value:.0f} %"
