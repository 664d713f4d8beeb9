"""The gate of a run: stages without a GPU go on side by side, ahead of it; equal kernels are judged once.

Two answers that read as the same graph are compiled from the same generated source, so they are one kernel, and its
verdict holds for both, times included: otherwise the noise of a clock would rank equal kernels.  Judgements are kept
in the run's folder, so that a run that is gone on with finds them too; they hold for the gate and the machine that
made them, and for no other.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..agent.loop import Gate
from ..agent.same_kernel import kernel_key, of_this, read_alone
from ..gate.verdict import StageResult, Verdict
from .edition import edition

if TYPE_CHECKING:
    from ..tasks import Workload

KEPT = "judged"
SUMMED = ("tax", "over_eager", "over_compile", "sol")
"""What a timing says of all its workloads together."""


class Judged:
    """What `loop.run` needs of an evaluation."""

    def __init__(self, verdict: Verdict):
        self.verdict = verdict


class TimeUp(Exception):
    """The run's time is over: what is under way is gone on with another time."""


class Judging:
    """A gate for `loop.run`, used by many threads.

    check: the stages that need no GPU, or the whole gate where there is none; runs in any number of threads.
    judge: the whole gate, one candidate at a time; None where there is no GPU.
    folder: the run's, where judgements are kept.
    read: the first stage alone, so that what has been judged is not compiled again; None to do without.
    timed: the workloads that the run times of a task; of a judgement with more only these count, and one without some
    of them is made again. None where that does not matter.
    environment: this machine's, which a kept judgement must have been made in.
    in_time: raises TimeUp where nothing may be judged any more.
    """

    def __init__(
        self,
        check: Gate,
        judge: Gate | None,
        folder: Path,
        timed: Callable[[Any], Sequence[Workload]] | None = None,
        *,
        read: Gate | None = None,
        storage: str = "bf16",
        environment: dict[str, str] | None = None,
        in_time: Callable[[], None] = lambda: None,
    ):
        self._check, self._judge, self._read, self._timed, self._in_time = check, judge, read, timed, in_time
        self._folder, self._storage = folder, storage
        self._environment = with_edition(environment or {})
        self._gpu = threading.Lock()
        self._at_work: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, task: Any, source: str, *, tier: Any, progress: Any) -> Any:
        if self._judge is not None and self._read is not None:
            ahead = self._read(task, source, tier=tier, progress=progress).verdict
            kept = self._kept(_key(ahead, source, self._storage), task) if ahead.status == "checked" else None
            if kept is not None:
                return Judged(of_this(ahead, kept))
        self._in_time()
        checked = self._check(task, source, tier=tier, progress=progress)
        verdict: Verdict = checked.verdict
        if self._judge is None or verdict.status != "checked":
            return checked
        key = _key(verdict, source, self._storage)
        with self._lock:
            turn = self._at_work.setdefault(key, threading.Lock())
        with turn:  # an equal candidate that comes meanwhile waits, and takes the verdict of this one
            kept = self._kept(key, task)
            if kept is None:
                with self._gpu:
                    self._in_time()
                    kept = self._judge(task, source, tier=tier, progress=progress).verdict
                if kept.status == "failed":
                    return Judged(kept)
                kept = remember(self._folder, kept, source, self._storage)
        return Judged(of_this(verdict, kept))

    def _kept(self, key: str, task: Any) -> Verdict | None:
        try:
            kept = Verdict.model_validate_json((self._folder / KEPT / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValidationError):
            return None
        if kept.environment != self._environment:
            return None
        return only(kept, self._timed(task)) if self._timed and kept.ok else kept


def only(verdict: Verdict, workloads: Sequence[Workload]) -> Verdict | None:
    """The verdict as if these workloads alone had been timed; None where some of them were not.

    The seconds of tuning and timing, which go by workload, count by the share of the workloads.
    """
    from ..gate.timing import summarise

    there = {_label(row["workload"]): row for row in verdict.timing.get("workloads", ())}
    wanted = [_label(w.model_dump(mode="json")) for w in workloads]
    if any(label not in there for label in wanted):
        return None
    if len(wanted) == len(there):
        return verdict
    rows = [there[label] for label in wanted]
    summary = summarise(rows)

    def cut(stage: StageResult) -> StageResult:
        if stage.stage not in ("tune", "timing"):
            return stage
        update: dict[str, Any] = {"seconds": stage.seconds * len(rows) / len(there)}
        if stage.stage == "timing" and "tax" in summary:
            update["note"] = f"tax {summary['tax']:.3f}"
            update["data"] = {**stage.data, "workloads": rows, "summary": summary}
        return stage.model_copy(update=update)

    timing = {**{k: v for k, v in verdict.timing.items() if k not in SUMMED}, **summary, "workloads": rows}
    return verdict.model_copy(update={"timing": timing, "stages": tuple(cut(s) for s in verdict.stages)})


def _label(workload: dict[str, Any]) -> str:
    return json.dumps([workload["sizes"], workload.get("storage", "bf16")], sort_keys=True)


def remember(folder: Path, verdict: Verdict, source: str, storage: str = "bf16") -> Verdict:
    """Keep a judgement that this gate has just made in a run's folder, so that the run takes it for every equal
    candidate. Returns it with the gate's edition in its environment."""
    (folder / KEPT).mkdir(parents=True, exist_ok=True)
    key = _key(verdict, source, storage)
    verdict = verdict.model_copy(update={"environment": with_edition(verdict.environment)})
    temporary = folder / KEPT / f"{key}.{threading.get_ident()}.new"
    temporary.write_text(verdict.model_dump_json() + "\n", encoding="utf-8")
    temporary.replace(folder / KEPT / f"{key}.json")
    return verdict


def with_edition(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "gate": edition()}


def _key(verdict: Verdict, source: str, storage: str) -> str:
    """Of the kernel, in its storage dtype; of the file where nothing is known of the kernel."""
    known = kernel_key(verdict, source, storage)
    return known or hashlib.sha256(f"{verdict.candidate_digest} {storage}".encode()).hexdigest()[:40]


def judging(
    folder: Path,
    storage: str = "bf16",
    cpu_only: bool = False,
    shapes: int | None = None,
    in_time: Callable[[], None] = lambda: None,
) -> Judging:
    """The gate of this machine. shapes: time each task at so many of its shapes, from the first on; None for all."""
    from .. import gate
    from ..gate.machine import environment
    from ..gate.pipeline import bare_kernels, session

    def check(task: Any, source: str, *, tier: Any, progress: Any) -> Any:
        if not cpu_only:  # what the tax is measured against is compiled ahead too
            for text, signature in bare_kernels(task, storage):
                session().compiler.submit(text, signature)
        return gate.check(task, source, tier=tier, storage=storage, progress=progress)

    def timed(task: Any) -> Sequence[Workload]:
        return task.workloads(storage)[:shapes]

    def judge(task: Any, source: str, *, tier: Any, progress: Any) -> Any:
        return gate.evaluate(task, source, tier=tier, storage=storage, progress=progress, workloads=timed(task))

    if cpu_only:
        return Judging(check, None, folder, timed, in_time=in_time)
    return Judging(check, judge, folder, timed, read=_read, storage=storage, environment=environment(), in_time=in_time)


def _read(task: Any, source: str, *, tier: Any, progress: Any) -> Judged:
    return Judged(read_alone(task, source, tier))
