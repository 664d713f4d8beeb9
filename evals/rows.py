"""One row a sample: what a model did on a task, computed from the sample's journal and from nothing else.

Times are those that model and gate report, not the wall's, so that a run that was killed and gone on with has the
same rows as one that was not.  Sums are exact (fsum): Python's own differ between its versions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..agent.history import Attempt, History
from ..agent.journal import Event
from ..gate.verdict import Verdict

GPU_STAGES = ("tune", "numerics", "guards", "timing", "sanitizer")

NOT_THE_MODELS = ("missing-key", "bad-key", "rate-limited", "overloaded", "timeout", "unreachable", "unknown-model")
"""Failures of the line, the server or the key say nothing of the model: such a sample is not finished."""
NO_VERDICT = ("gate", "uncounted", "unpriced")
"""Ends of a run that say nothing of the model either: the gate broke, or a budget could not be kept."""

Key = tuple[str, str, str, int]
"""model, tier, task, sample"""


class Timed(BaseModel):
    """One workload of a kernel that was timed."""

    model_config = ConfigDict(frozen=True)

    workload: str
    """Such as "M8192 N4096 K4096 bf16"."""
    schedule: str
    milliseconds: dict[str, float]
    """Medians: the kernel, cuBLAS, the bare template, eager and torch.compile."""
    tax: float
    baseline: str
    """The faster of eager and torch.compile here."""
    speedup: float
    """Time of that baseline over time of the kernel."""
    kept: bool = False
    """Whether torch.compile was not timed anew: its time is that of an earlier measurement, as a ratio to cuBLAS."""


class AttemptRow(BaseModel):
    """One question and what became of it."""

    model_config = ConfigDict(frozen=True)

    number: int
    status: str
    stage: str = ""
    """The stage that refused it."""
    code: str = ""
    """The finding's code."""
    tax: float | None = None
    gpu_seconds: float = 0.0
    tokens: int = 0
    repeats: int | None = None


class Row(BaseModel):
    """One sample: a whole run of the agent on one task."""

    model_config = ConfigDict(frozen=True)

    model: str
    tier: str
    task: str
    task_digest: str
    level: int
    family: str
    sample: int
    status: str
    """The best attempt's: "passed" (every stage on a GPU), "checked" (the stages without a GPU), "refused"; or
    "none" where the model gave no answer."""
    ended: str
    """Why it ended, as the agent says it."""
    tax: float | None = None
    """Geometric mean over workloads of the best attempt; None where it was not timed."""
    speedup: float | None = None
    """Over the best baseline, geometric mean over workloads."""
    timed: tuple[Timed, ...] = ()
    best: int | None = None
    """The number of the attempt that counts, see `counted`."""
    source: str | None = None
    """Its candidate."""
    attempts: tuple[AttemptRow, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: bool = False
    """Whether some answer came without its tokens."""
    dollars: float = 0.0
    unpriced: bool = False
    """Whether some answer came without a price."""
    answer_seconds: float = 0.0
    gate_seconds: float = 0.0
    gpu_seconds: float = 0.0
    journal: str = ""
    """Relative to the run's folder."""
    environment: dict[str, str] = Field(default_factory=dict)

    @property
    def key(self) -> Key:
        return (self.model, self.tier, self.task, self.sample)

    @property
    def solved(self) -> bool:
        """Passed every stage of the gate on a real GPU."""
        return self.status in ("passed", "admitted")

    @property
    def checked(self) -> bool:
        """Passed at least the stages that need no GPU."""
        return self.solved or self.status == "checked"


def ending(events: Sequence[Event]) -> str | None:
    """Why a sample is over; None while it is not: unfinished, or stopped by what is not the model's."""
    for event in reversed(events):
        if event["event"] == "stop":
            return None if event.get("reason") in NO_VERDICT else str(event.get("reason"))
        if event["event"] == "error" and event.get("what") == "model":
            return None if event.get("failure") in NOT_THE_MODELS else "model"
        if event["event"] in ("resumed", "interrupted", "prompt", "answer", "verdict"):
            return None
    return None


def row_of(events: Sequence[Event], *, level: int, family: str, sample: int, journal: str) -> Row:
    """The row of a finished sample."""
    history = History(events)
    start, best = history.start or {}, counted(history)
    verdict = best.verdict if best else None
    timed = timed_of(verdict) if verdict and verdict.ok else ()
    spent = history.spent
    seconds = [e.get("seconds") for e in events if e["event"] == "answer"]
    usages = [e["usage"] for e in events if e["event"] in ("answer", "error") and isinstance(e.get("usage"), dict)]
    fresh = [a.verdict for a in history.judged if a.repeats is None and a.verdict]
    return Row(
        model=start["model"],
        tier=start["tier"],
        task=start["task"],
        task_digest=start["task_digest"],
        level=level,
        family=family,
        sample=sample,
        status=verdict.status if verdict else "none",
        ended=ending(events) or "",
        tax=verdict.tax if verdict and verdict.ok else None,
        speedup=geometric_mean([t.speedup for t in timed]),
        timed=timed,
        best=best.number if best else None,
        source=best.source if best else None,
        attempts=tuple(_attempt(a) for a in history.attempts),
        input_tokens=sum(int(u.get("input_tokens") or 0) for u in usages),
        output_tokens=sum(int(u.get("output_tokens") or 0) for u in usages),
        uncounted=spent.uncounted,
        dollars=spent.dollars,
        unpriced=spent.unpriced,
        answer_seconds=math.fsum(s for s in seconds if isinstance(s, int | float)),
        gate_seconds=math.fsum(s.seconds for v in fresh for s in v.stages),
        gpu_seconds=math.fsum(map(_gpu_seconds, fresh)),
        journal=journal,
        environment=next((v.environment for v in reversed(fresh) if v.environment), {}),
    )


def counted(history: History) -> Attempt | None:
    """The attempt that a sample is scored by: the best, where a later kernel is better only if it is clearly faster.

    The least of several noisy times is too small, and more so for whoever has more of them, so that the search would
    beat the tracer with equal kernels.  A kernel therefore takes the place of an earlier one only where the intervals
    of their taxes are apart (over workloads, the geometric means of the ends).
    """
    best: Attempt | None = None
    for attempt in history.judged:
        if best is None or _clearly_better(attempt, best):
            best = attempt
    return best


def _clearly_better(new: Attempt, old: Attempt) -> bool:
    if new.rank < old.rank or new.verdict is None or old.verdict is None or not old.verdict.ok:
        return new.rank > old.rank
    ends = [_tax_ends(v) for v in (new.verdict, old.verdict)]
    return ends[1] is None or (ends[0] is not None and ends[0][1] < ends[1][0])


def _tax_ends(verdict: Verdict) -> tuple[float, float] | None:
    """The low and the high end of a kernel's tax; None where it was not timed."""
    taxes = [row["tax"] for row in verdict.timing.get("workloads", ())]
    low, high = (geometric_mean([_number(t, end) for t in taxes]) for end in ("low", "high"))
    return None if low is None or high is None else (low, high)


BASELINES = ("eager", "compile")
"""What does the whole task; beside them a verdict times bare products, of a program those of each stage."""


def timed_of(verdict: Verdict) -> tuple[Timed, ...]:
    """The timing of a verdict, a workload each, with the best baseline of each."""
    rows = []
    for row in verdict.timing.get("workloads", ()):
        times: dict[str, float] = row["milliseconds"]
        others = {name: times[name] for name in BASELINES if name in times}
        baseline = min(others, key=lambda name: others[name])
        sizes = row["workload"]
        label = " ".join(f"{k}{v}" for k, v in sizes["sizes"].items()) + f" {sizes.get('storage', '')}".rstrip()
        rows.append(
            Timed(
                workload=label,
                schedule=row.get("schedule", ""),
                milliseconds=times,
                tax=_number(row["tax"]),
                baseline=baseline,
                speedup=others[baseline] / times["kernel"],
                kept=str(row.get("compile_baseline", "")).startswith("kept"),
            )
        )
    return tuple(rows)


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _attempt(attempt: Attempt) -> AttemptRow:
    verdict, usage = attempt.verdict, attempt.usage
    failed = next((s.stage for s in verdict.stages if s.outcome == "failed"), "") if verdict else ""
    return AttemptRow(
        number=attempt.number,
        status=verdict.status if verdict else "none",
        stage=failed,
        code=verdict.finding.code if verdict and verdict.finding else "",
        tax=verdict.tax if verdict and verdict.ok else None,
        gpu_seconds=_gpu_seconds(verdict) if verdict and attempt.repeats is None else 0.0,
        tokens=int(usage.get("input_tokens") or 0) + int(usage.get("output_tokens") or 0),
        repeats=attempt.repeats,
    )


def _gpu_seconds(verdict: Verdict) -> float:
    return math.fsum(s.seconds for s in verdict.stages if s.stage in GPU_STAGES)


def _number(value: Any, which: str = "value") -> float:
    """A measure, or an end of its interval where it has one."""
    if isinstance(value, dict):
        value = value[which if which in value else "value"]
    return float(value)
