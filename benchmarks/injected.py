"""The faults that `faults.py` injects: each strikes at a random moment, and then an honest kernel is judged.

Every method of `Faults` that takes nothing is one, and returns what came of it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codasmith import gate
from codasmith.evals.attack_corpus import attacks
from codasmith.gate.pipeline import Evaluation, session
from codasmith.tasks import Workload, load_task
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels.store import scan

sys.path.insert(0, str(Path(__file__).parent))
import victims
from victims import HONEST_MAY, SOURCE, TASK, said

VICTIMS = str(Path(victims.__file__))
SMALL = Workload(sizes={"M": 2048, "N": 2048, "K": 2048})
SMALL_TASK = '''"""The task of the honest kernel at one small size."""

from codasmith.tasks import Tensor, task


@task(
    gemm="h @ w.T",
    h=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    out={"y": Tensor("M N")},
    workloads=[{"M": 2048, "N": 2048, "K": 2048}],
)
def small_scale(h, w, rstd):
    """y = (h @ w.T) * rstd, one rstd a row."""
    return {"y": (h @ w.T) * rstd[:, None]}
'''


class GivenUp(Exception):
    """The time is up: nothing more is judged."""


@dataclass(frozen=True)
class Outcome:
    """What came of one fault."""

    fault: str
    said: str
    well_s: float
    """Seconds from the fault until a judgement ended well, that judgement included.  After a killed coordinator, which
    nobody but the user starts anew, from when the run that goes on has ended."""
    wrong: str = ""
    """What was lost or said wrongly; empty where nothing was."""

    def __str__(self) -> str:
        text = f"{self.fault:<34} {self.said:<44} well after {self.well_s:.1f} s"
        return text + (f"  WRONG: {self.wrong}" if self.wrong else "")


class Faults:
    """The faults, over one work folder."""

    def __init__(self, work: Path, gpu: bool):
        self.work, self.gpu, self.count = work, gpu, 0
        self.dice = random.Random()
        self.given_up = threading.Event()
        self._started: list[subprocess.Popen] = []

    def give_up(self) -> None:
        """End what is under way; from another thread."""
        self.given_up.set()
        for process in self._started:
            process.kill()
        session().close()

    def judge(self, *, fresh: bool = False, source: str = SOURCE, task: str = TASK, tier: Any = "closed") -> Evaluation:
        """One judgement on one schedule and one small workload; fresh: nothing is found compiled."""
        if self.given_up.is_set():
            raise GivenUp
        self.count += 1
        folder = self.work / (f"objects-{self.count}" if fresh else "objects")
        return gate.evaluate(
            load_task(task),
            source,
            tier=tier,
            cpu_only=not self.gpu,
            workspace=folder,
            schedules=SCHEDULES[:1],
            workloads=[SMALL],
            compile_baseline=False,
            rounds=9,
        )

    def start(self, *command: str, **how: Any) -> subprocess.Popen:
        """A process that ends when all is given up."""
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | how
        self._started.append(subprocess.Popen([sys.executable, *command], **how))
        return self._started[-1]

    def across(self, fault: str, strike: Callable[[], Any], within_s: float, **how: Any) -> Outcome:
        """Judge the honest kernel while `strike` happens at a random moment; then judge it once more."""
        struck: list[float] = []

        def later() -> None:
            time.sleep(self.dice.random() * within_s)
            struck.append(time.monotonic())
            strike()

        thread = threading.Thread(target=later)
        thread.start()
        verdict = self.judge(**how).verdict
        thread.join()
        return self.settle(fault, said(verdict), struck[0], _wrong(verdict))

    def settle(self, fault: str, words: str, since: float, wrong: str) -> Outcome:
        """Judge the honest kernel, which must be well now."""
        verdict = self.judge().verdict
        well = time.monotonic() - since
        if not verdict.ok:
            wrong = wrong or f"the next judgement was {said(verdict)}"
        return Outcome(fault, words, well, wrong)

    # --- killed -------------------------------------------------------------------------------------

    def compile_server(self) -> Outcome:
        return self.across("compile server killed", lambda: victims.kill(victims.compile_server()), 3.0, fresh=True)

    def compile_child(self) -> Outcome:
        return self.across(
            "compile child killed",
            lambda: victims.kill(victims.deepest(victims.compile_server())),
            6.0,
            fresh=True,
        )

    def referee(self) -> Outcome:
        return self.across("referee killed", lambda: victims.kill(victims.referee()), 4.0)

    def runner(self) -> Outcome:
        return self.across(
            "runner killed",
            lambda: victims.kill(self.dice.choice(victims.children(victims.referee()) or [0])),
            4.0,
        )

    def coordinator(self) -> Outcome:
        """A run of the agent, killed and gone on with: its journal is whole, and nothing is asked twice."""
        self.count += 1
        journal, task = self.work / f"journal-{self.count}.jsonl", self.work / "small_scale.py"
        task.write_text(SMALL_TASK)
        command = ["-m", "codasmith.agent"]
        options = ["--model", "builtin:tracer", "--journal", str(journal), *([] if self.gpu else ["--cpu-only"])]
        environment = {**os.environ, "CODASMITH_HOME": str(self.work / "home"), "CODASMITH_CACHE": str(self.work)}
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        process = self.start(*command, "run", str(task), *options, **quiet)
        patience = time.monotonic() + 90
        while time.monotonic() < patience and not (journal.exists() and journal.stat().st_size):
            if self.given_up.wait(0.05):
                raise GivenUp
        time.sleep(self.dice.random() * 6.0)
        killed = time.monotonic()
        process.kill()
        process.wait()
        before = journal.read_text() if journal.exists() else ""
        again = ["resume", str(journal)] if before.count("\n") else ["run", str(task), *options]
        status = self.start(*command, *again, **quiet).wait(500)
        took = time.monotonic() - killed
        after = journal.read_text()
        whole = before[: before.rfind("\n") + 1]  # a last line may have been cut short
        events = [json.loads(line) for line in after.splitlines()]
        answers = [e["prompt_digest"] for e in events if e["event"] == "answer"]
        wrong = "" if status == 0 else f"going on ended with {status}"
        if not after.startswith(whole):
            wrong = "lines of the journal were lost"
        if len(answers) != len(set(answers)):
            wrong = "an answer was asked for twice"
        words = f"{len(whole.splitlines())} events kept, {again[0]} ended well in {took:.0f} s"
        return self.settle("coordinator killed", words, time.monotonic(), wrong)

    def writer(self) -> Outcome:
        """A process that writes entries into a store without end: every one that is seen is whole, and none goes."""
        store = self.work / "store"
        process = self.start(VICTIMS, "writer", str(store), stderr=None)
        assert process.stdout is not None
        process.stdout.readline()  # the first is in
        time.sleep(self.dice.random() * 0.4)
        process.kill()
        since = time.monotonic()
        told = [line for line in process.stdout.read().splitlines() if line]
        process.wait()
        found, damaged = scan(where=[store])
        missing = set(told) - {e.name for e in found}
        wrong = f"{len(damaged)} damaged, {len(missing)} lost" if damaged or missing else ""
        return self.settle("registry writer killed", f"{len(found)} entries, all whole", since, wrong)

    # --- run out ------------------------------------------------------------------------------------

    def full_disk_compiling(self) -> Outcome:
        with victims.small_disk(self.work / "small", 2**15) as (folder, how):
            since = time.monotonic()
            if how == "tmpfs":
                before = session().compiler.folder
                verdict = gate.check(load_task(TASK), SOURCE, workspace=folder, schedules=SCHEDULES[:1]).verdict
                session().compiler.folder = before
                words, wrong = said(verdict), _wrong(verdict)
            else:
                words, wrong = self._limited("check")
        return self.settle(f"full disk while compiling ({how})", words, since, wrong)

    def full_disk_keeping(self) -> Outcome:
        since = time.monotonic()
        words, wrong = self._limited("write")
        return self.settle("full disk while a record is written", words, since, wrong)

    def _limited(self, what: str) -> tuple[str, str]:
        """Do it in a process that may write small files only. Returns what it said, and what of it was wrong."""
        process = self.start(VICTIMS, "limited", what, str(self.work / f"limited-{self.count}"))
        out, err = process.communicate(timeout=300)
        if process.returncode or not out.splitlines():
            return "a crash", err.strip().splitlines()[-1][:200] if err else f"status {process.returncode}"
        words, _, wrong = out.splitlines()[-1].partition("\t")
        return words, wrong

    def memory(self) -> Outcome:
        """The GPU's memory taken by another process."""
        victims.kill(victims.referee())
        session().close()
        hog = self.start(VICTIMS, "hog", stderr=None)
        assert hog.stdout is not None
        hog.stdout.readline()
        verdict = self.judge().verdict
        hog.kill()
        hog.wait()
        since = time.monotonic()
        session().close()
        return self.settle("GPU out of memory", said(verdict), since, _wrong(verdict))

    # --- the kernel's own ----------------------------------------------------------------------------

    def hang(self) -> Outcome:
        return self._bad("f1_barrier", "kernel hangs", {"runner-hung"})

    def illegal(self) -> Outcome:
        return self._bad(
            "c9_beyond_the_end", "kernel writes beyond its output", {"guard-out-of-bounds", "illegal-access"}
        )

    def _bad(self, name: str, fault: str, codes: set[str]) -> Outcome:
        (attack,) = attacks([name])
        assert attack.task == TASK
        verdict = self.judge(source=attack.source(self.work / "mark"), task=attack.task, tier=attack.tier).verdict
        since = time.monotonic()
        code = verdict.finding.code if verdict.finding else ""
        return self.settle(fault, said(verdict), since, "" if code in codes else f"{said(verdict)}, not {codes}")


def _wrong(verdict: Any) -> str:
    return "" if verdict.status in HONEST_MAY else f"{verdict.finding}"
