"""The gate of a run: stages without a GPU go on side by side, ahead of it; equal kernels are judged once.

Two answers that read as the same graph are compiled from the same generated source, so they are one kernel, and its
verdict holds for both, times included: otherwise the noise of a clock would rank equal kernels.  Judgements are kept
in the run's folder, so that a run that is gone on with finds them too.
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
from ..gate.verdict import CPU_STAGES, Verdict

if TYPE_CHECKING:
    from ..tasks import Workload

KEPT = "judged"


class Judged:
    """What `loop.run` needs of an evaluation."""

    def __init__(self, verdict: Verdict):
        self.verdict = verdict


class Judging:
    """A gate for `loop.run`, used by many threads.

    check: the stages that need no GPU, or the whole gate where there is none; runs in any number of threads.
    judge: the whole gate, one candidate at a time; None where there is no GPU.
    folder: the run's, where judgements are kept.
    timed: the workloads that the run times of a task; of a judgement with more only these count, and one without some
    of them is made again. None where that does not matter.
    """

    def __init__(
        self,
        check: Gate,
        judge: Gate | None,
        folder: Path,
        timed: Callable[[Any], Sequence[Workload]] | None = None,
    ):
        self._check, self._judge, self._timed = check, judge, timed
        self._folder = folder
        self._gpu = threading.Lock()
        self._at_work: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, task: Any, source: str, *, tier: Any, progress: Any) -> Any:
        checked = self._check(task, source, tier=tier, progress=progress)
        verdict: Verdict = checked.verdict
        if self._judge is None or verdict.status != "checked":
            return checked
        key = _key(verdict, source)
        with self._lock:
            turn = self._at_work.setdefault(key, threading.Lock())
        with turn:  # an equal candidate that comes meanwhile waits, and takes the verdict of this one
            kept = self._kept(key, task)
            if kept is None:
                with self._gpu:
                    kept = self._judge(task, source, tier=tier, progress=progress).verdict
                if kept.status == "failed":
                    return Judged(kept)
                remember(self._folder, kept, source)
        return Judged(_of_this(verdict, kept))

    def _kept(self, key: str, task: Any) -> Verdict | None:
        try:
            kept = Verdict.model_validate_json((self._folder / KEPT / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValidationError):
            return None
        return only(kept, self._timed(task)) if self._timed and kept.ok else kept


def only(verdict: Verdict, workloads: Sequence[Workload]) -> Verdict | None:
    """The verdict as if these workloads alone had been timed; None where some of them were not."""
    from ..gate.timing import summarise

    there = {_label(row["workload"]): row for row in verdict.timing.get("workloads", ())}
    wanted = [_label(w.model_dump(mode="json")) for w in workloads]
    if any(label not in there for label in wanted):
        return None
    rows = [there[label] for label in wanted]
    return verdict.model_copy(update={"timing": {**verdict.timing, **summarise(rows), "workloads": rows}})


def _label(workload: dict[str, Any]) -> str:
    return json.dumps([workload["sizes"], workload.get("storage", "bf16")], sort_keys=True)


def remember(folder: Path, verdict: Verdict, source: str) -> None:
    """Keep a judgement in a run's folder, so that the run takes it for every equal candidate."""
    (folder / KEPT).mkdir(parents=True, exist_ok=True)
    key = _key(verdict, source)
    temporary = folder / KEPT / f"{key}.new"
    temporary.write_text(verdict.model_dump_json() + "\n", encoding="utf-8")
    temporary.replace(folder / KEPT / f"{key}.json")


def _key(verdict: Verdict, source: str) -> str:
    """Of the kernel: the task, the tier, and its graphs; where nothing is read (the open tier), the source."""
    read = next((s.data for s in verdict.stages if s.stage == "read"), {})
    stages = read.get("stages") or {"": read}
    what = {stage: data.get("digest") for stage, data in stages.items()}
    if None in what.values():
        what = {"": hashlib.sha256(source.encode()).hexdigest()}
    text = json.dumps([verdict.task_digest, verdict.tier, what], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _of_this(own: Verdict, kept: Verdict) -> Verdict:
    """The verdict of an equal candidate, with this one's own digest and stages without a GPU."""
    ahead = [s for s in own.stages if s.stage in CPU_STAGES]
    stages = (*ahead, *(s for s in kept.stages if s.stage not in CPU_STAGES))
    return kept.model_copy(update={"candidate_digest": own.candidate_digest, "stages": stages})


def judging(folder: Path, storage: str = "bf16", cpu_only: bool = False, shapes: int | None = None) -> Judging:
    """The gate of this machine. shapes: time each task at so many of its shapes, from the first on; None for all."""
    from .. import gate
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

    return Judging(check, None if cpu_only else judge, folder, timed)
