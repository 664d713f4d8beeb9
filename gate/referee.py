"""The referee: owns seeds, references, comparison and the clock; never loads a candidate's object.

Runs as its own process.  Jobs come from the coordinator as JSON lines; while a job runs, progress lines go
back, then its stages.  The runner is the referee's child; when it dies or hangs, that is a finding, and a new one
takes its place.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..primitives import Graph
from ..tasks import Workload, load_task
from ..templates import sandbox
from .arena import Arena, ArenaFull
from .job import Job, Object, Refused
from .machine import environment
from .pipe import Child, ChildFailed
from .verdict import Finding, StageResult

ARENA_BYTES = 16 * 2**30
ARENA_SHARE = 0.35


class Referee:
    """Holds the shared block and the runner."""

    def __init__(self) -> None:
        torch.cuda.init()
        free, _ = torch.cuda.mem_get_info()
        self.arena = Arena(min(ARENA_BYTES, int(free * ARENA_SHARE)), torch.device("cuda", torch.cuda.current_device()))
        self.environment = environment()
        self._runner: Child | None = None

    @property
    def runner(self) -> Child:
        if self._runner is None or not self._runner.alive:
            self._runner = Child("codasmith.gate.runner", environment=_runner_environment())
            self._runner.call("attach", handle=self.arena.handle(), size=self.arena.block.numel())
        return self._runner

    def judge(self, job: Job) -> list[StageResult]:
        """Tune, check and time one candidate; stops at the first stage that refuses it."""
        from .numerics import check
        from .timing import measure
        from .tune import tune

        try:
            self.runner.call("reset")
            for item in [*job.candidate, *job.bare]:
                self._load(item)
        except ChildFailed as error:
            finding = _runner_finding(error, "loading the compiled object")
            return [StageResult(stage="tune", outcome="failed", finding=finding)]
        stages: tuple[tuple[tuple[str, ...], Callable], ...] = (
            (("tune",), tune),
            (("numerics", "guards"), check),
            (("timing",), measure),
        )
        for names, run in stages:
            started = time.perf_counter()
            try:
                results = run(self, job)
            except Refused as refused:
                results = [_failed(names, refused.finding, refused.note)]
            except ChildFailed as error:
                results = [_failed(names, _runner_finding(error, f"the stage {names[0]}"))]
            except ArenaFull as error:
                finding = Finding(code="too-large", message=f"{error}.", remedy="Time smaller workloads.")
                results = [_failed(names, finding)]
            seconds = time.perf_counter() - started
            shared = sum(r.seconds for r in results)
            job.stages += [
                r if r.seconds else r.model_copy(update={"seconds": max(seconds - shared, 0.0)}) for r in results
            ]
            if any(r.outcome == "failed" for r in results):
                break
        return job.stages

    def _load(self, item: Object) -> None:
        self.runner.call("load", kernel=item.key, path=item.path, signature=item.signature.model_dump(mode="json"))


def _runner_environment() -> dict[str, str]:
    """A short list: whatever key the coordinator has, the process that loads candidates' objects has not."""
    driver = {k: v for k, v in os.environ.items() if k.startswith(("CUDA_", "NVIDIA_", "PYTORCH_"))}
    return {**sandbox.environment(), **driver}


def _failed(names: tuple[str, ...], finding: Finding, note: str = "") -> StageResult:
    stage = "guards" if "guards" in names and finding.code.startswith("guard-") else names[0]
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

    referee = Referee()
    write({"ready": True, "environment": referee.environment})
    for line in sys.stdin:
        command = json.loads(line)
        number = command["number"]
        try:
            stages = referee.judge(_job(command, partial(_progress, write, number)))
            write({"number": number, "ok": True, "stages": [s.model_dump(mode="json") for s in stages]})
        except Exception as error:
            write({"number": number, "ok": False, "error": f"{type(error).__name__}: {error}"[:4000]})
            if "CUDA" in str(error):
                raise SystemExit(1) from error  # a broken context cannot be mended; the coordinator starts another


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
