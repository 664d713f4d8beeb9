"""Scores: pure functions from rows to numbers. What each says is written beside it, and in docs/evals.md.

A contestant is a model in one tier.  Every share is the mean over tasks of the mean over samples, so a task with more
samples weighs no more.  A task without a row is missing, not unsolved; what is missing is said beside the score.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from .compare import Pair, by_task, compare, headline, rank_ranges
from .intervals import Cost, Estimate, Values, mean, pass_at, ratio, share
from .rows import Row, geometric_mean

FAST = (1.0, 1.1, 1.25, 1.5)
WITHIN = (1.02, 1.05, 1.10)
HAND_WRITTEN = "hand-written"
LIBRARIES = {"torch.compile": "compile", "eager": "eager"}
"""Baselines that were timed beside every kernel, by their names in the timing."""

Contestant = tuple[str, str]
"""model, tier"""


class Group(BaseModel):
    """The headline scores on some of the tasks."""

    model_config = ConfigDict(frozen=True)

    by: str
    """"level", "family" or "published"."""
    value: str
    tasks: int
    pass_1: Estimate | None
    fast_1: Estimate | None
    speedup_all: Estimate | None


class Score(BaseModel):
    """One contestant's scores. Those of speed and cost are None where nothing was timed."""

    model_config = ConfigDict(frozen=True)

    model: str
    tier: str
    library: bool = False
    """A baseline of the libraries: right by definition, timed beside the kernels, asked nothing."""
    tasks: int
    samples: int
    pass_at: dict[int, Estimate] = {}
    """By k: a sample passes if its best attempt passed every stage on a GPU (without a GPU: those that need none)."""
    fast: dict[str, Estimate] = {}
    """fast_p by p: the share of samples that passed and are more than p times as fast as the best baseline."""
    within: dict[str, Estimate] = {}
    """By bound: the share of samples that passed with at most that tax."""
    tax: Estimate | None = None
    """Geometric mean over solved tasks."""
    speedup_solved: Estimate | None = None
    """Over the best baseline, geometric mean over solved tasks."""
    speedup_all: Estimate | None = None
    """The same over all tasks, where an unsolved one counts as the baseline, 1.0."""
    of_hand_written: Estimate | None = None
    """Share of the hand-written kernel's speed, geometric mean over tasks that both solved; each against its own bare
    GEMM, so that two moments of a GPU compare."""
    attempts: Cost | None = None
    """Questions asked for each sample that passed; so are the next three."""
    tokens: Cost | None = None
    dollars: Cost | None = None
    gpu_seconds: Cost | None = None
    total_dollars: float = 0.0
    total_tokens: int = 0
    incomplete_costs: str = ""
    """Why tokens or dollars are too low, if they are."""
    groups: tuple[Group, ...] = ()
    rank: tuple[int, int] | None = None
    """From the best to the worst rank that the comparisons leave open."""

    @property
    def label(self) -> str:
        return self.model if self.tier == "closed" else f"{self.model} ({self.tier})"


def score_rows(
    rows: Sequence[Row], *, cpu_only: bool = False, published: Iterable[str] = ()
) -> tuple[list[Score], list[Pair]]:
    """Everything: scores in order of rank, and all pairs; the same whatever order the rows come in.

    cpu_only: score what was checked without a GPU, and nothing of speed.
    published: tasks of which a solution is public.
    """
    by: dict[Contestant, list[Row]] = {}
    rows = sorted(rows, key=lambda r: r.key)
    for row in rows:
        by.setdefault((row.model, row.tier), []).append(row)
    hand = {r.task: r.tax for r in rows if r.model == HAND_WRITTEN and r.tier == "closed" and r.tax}
    public = set(published)
    scores = {c: _score(c, found, cpu_only, hand, public) for c, found in by.items()}
    pairs = compare({scores[c].label: found for c, found in by.items()}, cpu_only)
    ranks = rank_ranges([s.label for s in scores.values()], pairs, cpu_only)
    ordered = [s.model_copy(update={"rank": ranks[s.label]}) for s in scores.values()]
    if not cpu_only:
        ordered += [
            _library(name, rows, public) for name in LIBRARIES if any(_timed_as(r, LIBRARIES[name]) for r in rows)
        ]
    return sorted(ordered, key=lambda s: _order(s, cpu_only)), pairs


def _score(who: Contestant, rows: list[Row], cpu_only: bool, hand: dict[str, float], public: set[str]) -> Score:
    tasks = by_task(rows)
    passed = _passes(cpu_only)
    counts = [(len(t), sum(map(passed, t))) for t in tasks]
    most = min(n for n, _ in counts)
    ks = sorted({k for k in (1, 2, 4, 8, 16, most) if k <= most})
    gains: Values = [[float(passed(r)) for r in t] for t in tasks]

    def cost(of: Callable[[Row], float]) -> Cost | None:
        return ratio([[of(r) for r in t] for t in tasks], gains)

    unpriced, uncounted = any(r.unpriced for r in rows), any(r.uncounted for r in rows)
    missing = [what for what, lacks in (("prices", unpriced), ("tokens", uncounted)) if lacks]
    return Score(
        model=who[0],
        tier=who[1],
        tasks=len(tasks),
        samples=len(rows),
        pass_at={k: e for k in ks if (e := share(gains) if k == 1 else pass_at(counts, k))},
        **({} if cpu_only else _speed(tasks, hand)),
        attempts=cost(lambda r: len(r.attempts)),
        tokens=None if uncounted else cost(lambda r: r.input_tokens + r.output_tokens),
        dollars=None if unpriced else cost(lambda r: r.dollars),
        gpu_seconds=None if cpu_only else cost(lambda r: r.gpu_seconds),
        total_dollars=sum(r.dollars for r in rows),
        total_tokens=sum(r.input_tokens + r.output_tokens for r in rows),
        incomplete_costs=f"some answers came without {' and '.join(missing)}" if missing else "",
        groups=_groups(rows, cpu_only, public),
    )


def _speed(tasks: list[list[Row]], hand: dict[str, float]) -> dict:
    """The scores of speed; nothing where no kernel was timed."""
    solved = [[r for r in t if r.solved] for t in tasks]
    return {
        "fast": {f"{p:g}": e for p in FAST if (e := _share(tasks, _faster_than(p)))},
        "within": {f"{t:.2f}": e for t in WITHIN if (e := _share(tasks, _within(t)))},
        "tax": mean([[r.tax for r in t if r.tax] for t in solved], "geometric"),
        "speedup_solved": mean([[r.speedup for r in t if r.speedup] for t in solved], "geometric"),
        "speedup_all": _speedup_all(tasks),
        "of_hand_written": mean(
            [[hand[r.task] / r.tax for r in t if r.tax and r.task in hand] for t in solved], "geometric"
        ),
    }


def _groups(rows: list[Row], cpu_only: bool, public: set[str]) -> tuple[Group, ...]:
    sorts: dict[str, Callable[[Row], str]] = {
        "level": lambda r: str(r.level),
        "family": lambda r: r.family,
        "published": lambda r: "yes" if r.task in public else "no",
    }
    found = []
    for by, of in sorts.items():
        for value in sorted({of(r) for r in rows}):
            tasks = by_task([r for r in rows if of(r) == value])
            found.append(
                Group(
                    by=by,
                    value=value,
                    tasks=len(tasks),
                    pass_1=_share(tasks, _passes(cpu_only)),
                    fast_1=None if cpu_only else _share(tasks, _faster_than(1.0)),
                    speedup_all=None
                    if cpu_only
                    else mean([[headline(r, False) for r in t] for t in tasks], "geometric"),
                )
            )
    return tuple(found)


def _library(name: str, rows: Sequence[Row], public: set[str]) -> Score:
    """A library baseline as a contestant, from the times measured beside every kernel: one sample a task."""
    found = []
    for timed in by_task([r for r in rows if _timed_as(r, LIBRARIES[name])]):
        speedups, taxes = zip(*(_of_library(r, LIBRARIES[name]) for r in timed), strict=True)
        update = {
            "model": name,
            "status": "passed",
            "speedup": statistics.median(speedups),
            "tax": statistics.median(taxes),
        }
        found.append(timed[0].model_copy(update=update))
    tasks = by_task(found)
    return Score(
        model=name,
        tier="closed",
        library=True,
        tasks=len(tasks),
        samples=len(found),
        **_speed(tasks, {}),
        groups=_groups(found, False, public),
    )


def _timed_as(row: Row, column: str) -> bool:
    return bool(row.timed) and all(column in t.milliseconds for t in row.timed)


def _of_library(row: Row, column: str) -> tuple[float, float]:
    """Speed-up over the best baseline, and tax, of a library in one row's measurement."""
    speedups = [t.milliseconds[t.baseline] / t.milliseconds[column] for t in row.timed]
    bare = [min(v for k, v in t.milliseconds.items() if k == "cublas" or k.startswith("bare")) for t in row.timed]
    taxes = [t.milliseconds[column] / b for t, b in zip(row.timed, bare, strict=True)]
    return geometric_mean(speedups) or 1.0, geometric_mean(taxes) or 1.0


def _speedup_all(tasks: list[list[Row]]) -> Estimate | None:
    return mean([[headline(r, cpu_only=False) for r in t] for t in tasks], "geometric")


def _share(tasks: list[list[Row]], holds: Callable[[Row], bool]) -> Estimate | None:
    return share([[float(holds(r)) for r in t] for t in tasks])


def _passes(cpu_only: bool) -> Callable[[Row], bool]:
    return (lambda r: r.checked) if cpu_only else (lambda r: r.solved)


def _faster_than(p: float) -> Callable[[Row], bool]:
    return lambda r: r.solved and r.speedup is not None and r.speedup > p


def _within(bound: float) -> Callable[[Row], bool]:
    return lambda r: r.solved and r.tax is not None and r.tax <= bound


def _order(score: Score, cpu_only: bool) -> tuple[float, str]:
    best = score.pass_at.get(1) if cpu_only else score.speedup_all
    return (-best.value if best else 0.0, score.label)
