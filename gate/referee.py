"""The referee: owns seeds, references, comparison and the clock; never loads a candidate's object.

Runs as its own process.  Jobs come from the coordinator as JSON lines; while a job runs, progress lines go
back, then its stages.  The runner is the referee's child; when it dies or hangs, that is a finding, and a new one
takes its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from ..primitives import Graph
from ..tasks import ProgramTask, Workload, load_task
from .arena import Arena
from .job import Job, NotAlone, Object, Refused
from .machine import environment
from .pipe import Child, ChildFailed
from .remedies import BY_CODE
from .runners import LAUNCH_S, LIMIT_S, Runners
from .stopwatch import Asking, asking
from .verdict import Finding, StageResult

ARENA_BYTES = 16 * 2**30
ARENA_SHARE = 0.35


class RunnerLost(ChildFailed):
    """The runner died, hung or failed, and in which stage."""

    def __init__(self, stage: str, doing: str, error: ChildFailed):
        super().__init__(str(error), error.code)
        self.stage, self.doing = stage, doing

    @property
    def of_the_machine(self) -> bool:
        """Whether no candidate can be blamed: a kernel allocates nothing."""
        return "out of memory" in str(self).lower()


@contextlib.contextmanager
def _lost(stage: str, doing: str) -> Iterator[None]:
    try:
        yield
    except ChildFailed as error:
        raise RunnerLost(stage, doing, error) from error


class Referee:
    """Holds the shared block and the runner."""

    def __init__(self) -> None:
        torch.cuda.init()
        free, _ = torch.cuda.mem_get_info()
        self.arena = Arena(min(ARENA_BYTES, int(free * ARENA_SHARE)), torch.device("cuda", torch.cuda.current_device()))
        self.environment = environment()
        self.runners = Runners(self.arena)
        self.asking: Asking | None = None
        """What the runner's empty calls took before an open candidate's object was loaded; None in the closed tier."""

    @property
    def runner(self) -> Child:
        return self.runners.current

    def judge(self, job: Job, *, hostile: bool = True) -> list[StageResult]:
        """Tune, check and time one candidate; stops at the first stage that refuses it.

        hostile: its objects are native code of its author's, so the runner that loads them serves nobody else.
        Raises RunnerLost where the runner died, hung or failed; then it is gone, and the next use starts another.
        """
        try:
            self._judge(job, hostile)
            if job.stages:
                job.stages[0] = self.runners.noted(job.stages[0])
        except ChildFailed:
            self.runners.drop()  # whatever it still answers, its context may be broken
            raise
        finally:
            if hostile:
                self.runners.drop()
        return job.stages

    def _judge(self, job: Job, hostile: bool) -> None:
        from .numerics import check
        from .timing import measure
        from .tune import tune

        self.runners.begin(hostile=hostile)  # one that does not start is no candidate's fault
        with _lost("tune", "loading the compiled object"):
            self.runner.call("reset")
            self.asking = asking(self._nothing, self._busy) if hostile else None
            for item in [*job.bare, *job.candidate]:
                self._load(item)
        self.runner.limit_s = LIMIT_S if isinstance(job.task, ProgramTask) else LAUNCH_S
        stages: tuple[tuple[tuple[str, ...], Callable], ...] = (
            (("tune",), tune),
            (("numerics", "guards"), check),
            (("timing",), measure),
        )
        for names, run in stages:
            started = time.perf_counter()
            try:
                with _lost(names[0], f"the stage {names[0]}"):
                    results = run(self, job)
            except Refused as refused:
                results = [_failed(names, refused.finding, refused.note)]
            seconds = time.perf_counter() - started
            shared = sum(r.seconds for r in results)
            job.stages += [
                r if r.seconds else r.model_copy(update={"seconds": max(seconds - shared, 0.0)}) for r in results
            ]
            if any(r.outcome == "failed" for r in results):
                break

    def _nothing(self, times: int) -> None:
        self.runner.call("replay", graph="", times=0)

    def _busy(self) -> None:
        self.arena.reset()
        torch.cuda.synchronize()

    def _load(self, item: Object) -> None:
        self.runner.call(
            "load",
            kernel=item.key,
            path=self.runners.stage(item.key, item.path),
            signature=item.signature.model_dump(mode="json"),
        )


def _failed(names: tuple[str, ...], finding: Finding, note: str = "") -> StageResult:
    stage = "guards" if "guards" in names and finding.code.startswith("guard-") else names[0]
    finding = finding.model_copy(update={"remedy": finding.remedy or BY_CODE.get(finding.code, "")})
    return StageResult.model_validate({"stage": stage, "outcome": "failed", "finding": finding, "note": note})


def _runner_finding(error: ChildFailed, doing: str) -> Finding:
    text = str(error)
    if "illegal memory access" in text or "misaligned" in text:
        return Finding(
            code="illegal-access", message=f"In {doing} the kernel read or wrote memory that is not its own ({text})."
        )
    codes = {"crash": "runner-crashed", "hang": "runner-hung", "forged": "runner-forged", "flood": "runner-forged"}
    return Finding(code=codes.get(error.code, "runner-error"), message=f"In {doing} the runner failed: {text}.")


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def write(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=out, flush=True)

    try:
        referee = Referee()
    except RuntimeError as error:  # CUDA's: no device that works, or no memory left on it
        why = str(error).splitlines()[0]
        write({"ready": False, "error": f"no GPU to begin with ({why}); nvidia-smi says who uses it"})
        raise SystemExit(1) from None
    write({"ready": True, "environment": referee.environment})
    for line in sys.stdin:
        command = json.loads(line)
        number = command["number"]
        try:
            stages = judge_twice(referee, command, partial(_progress, write, number))
            write({"number": number, "ok": True, "stages": [s.model_dump(mode="json") for s in stages]})
        except Exception as error:
            said = str(error) if isinstance(error, NotAlone) else f"{type(error).__name__}: {error}"
            write({"number": number, "ok": False, "error": said[:4000]})
            if "CUDA" in str(error):
                raise SystemExit(1) from error  # a broken context cannot be mended; the coordinator starts another


def judge_twice(referee: Referee, command: dict[str, Any], say: Callable[[str, str], None]) -> list[StageResult]:
    """Judge a job; where the runner is lost, once more with a new one, and only then is it the candidate's fault.

    What ends a process may come from outside: a user, or a machine that is short of memory. Where others hold the GPU
    it is judged once more too, for they may be gone by then.
    Raises RunnerLost where it can be no candidate's fault, NotAlone where others hold the GPU still.
    """
    hostile = command.get("tier") != "closed"
    try:
        return referee.judge(_job(command, say), hostile=hostile)
    except RunnerLost as error:
        say(error.stage, f"the runner was lost ({error}); once more with another")
    except NotAlone as error:
        say("timing", f"{error}: once more")
    job = _job(command, say)
    try:
        return referee.judge(job, hostile=hostile)
    except RunnerLost as error:
        if error.of_the_machine:
            raise
        return [*job.stages, _failed((error.stage,), _runner_finding(error, error.doing))]


def _progress(write: Callable[[dict[str, Any]], None], number: int, stage: str, text: str) -> None:
    write({"number": number, "stage": stage, "progress": text})


def _job(command: dict[str, Any], say: Callable[[str, str], None]) -> Job:
    return Job(
        task=load_task(command["task"]),
        storage=command["storage"],
        candidate=[Object.of(d) for d in command["candidate"]],
        bare=[Object.of(d) for d in command["bare"]],
        timed=[Workload.model_validate(w) for w in command["timed"]],
        checked=[Workload.model_validate(w) for w in command["checked"]],
        rounds=command["rounds"],
        compile_baseline=command["compile_baseline"],
        # Drawn after compilation, and here: no candidate can have known it.
        seed=secrets.randbits(31),
        graph=Graph.model_validate(command["graph"]) if command["graph"] else None,
        plain=tuple(command["plain"]),
        say=say,
    )


if __name__ == "__main__":
    main()
