"""What is lost, and what is said wrongly, when something is killed or runs out: `python benchmarks/faults.py`.

Injects faults into every role at random moments, judges an honest kernel (or, for a fault of the kernel's own, a bad
one) across each, and asserts that no record is lost, that no honest kernel is refused and no bad one passes, and
that the next judgement is well.  One line a fault: what was done, what the gate said, and how long until it was well
again.  Without a GPU, or with --cpu, the roles that need none.  Ends with 1 if anything was lost or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codasmith import gate, verified_kernels
from codasmith.evals.attack_runner import attacks
from codasmith.gate.pipeline import Evaluation, session
from codasmith.tasks import Workload, load_task
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels.store import SHIPPED, read_entry, scan

TASK = "rmsnorm_scale"
SOURCE = (Path(verified_kernels.__file__).parent / "hand_written" / f"{TASK}.py").read_text()
SMALL = Workload(sizes={"M": 2048, "N": 2048, "K": 2048})
HONEST_MAY = {"passed", "checked", "failed"}  # failed claims nothing


@dataclass(frozen=True)
class Outcome:
    """What came of one fault."""

    fault: str
    said: str
    well_s: float
    """Seconds from the fault until a judgement ended well, that judgement included."""
    wrong: str = ""
    """What was lost or said wrongly; empty where nothing was."""

    def __str__(self) -> str:
        text = f"{self.fault:<34} {self.said:<44} well after {self.well_s:.1f} s"
        return text + (f"  WRONG: {self.wrong}" if self.wrong else "")


class Faults:
    """The faults, over one work folder."""

    def __init__(self, work: Path, dice: random.Random, gpu: bool):
        self.work, self.dice, self.gpu, self.count = work, dice, gpu, 0

    def judge(self, *, fresh: bool = False, source: str = SOURCE, tier: Any = "closed") -> Evaluation:
        """One judgement on one schedule and one small workload; fresh: nothing is found compiled."""
        self.count += 1
        folder = self.work / (f"objects-{self.count}" if fresh else "objects")
        return gate.evaluate(
            load_task(TASK),
            source,
            tier=tier,
            cpu_only=not self.gpu,
            workspace=folder,
            schedules=SCHEDULES[:1],
            workloads=[SMALL],
            compile_baseline=False,
            rounds=9,
        )

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
        return self.settle(
            fault, _said(verdict), struck[0], "" if verdict.status in HONEST_MAY else f"{verdict.finding}"
        )

    def settle(self, fault: str, said: str, since: float, wrong: str) -> Outcome:
        """Judge the honest kernel, which must be well now."""
        verdict = self.judge().verdict
        well = time.monotonic() - since
        if not verdict.ok:
            wrong = wrong or f"the next judgement was {_said(verdict)}"
        return Outcome(fault, said, well, wrong)

    # --- killed -------------------------------------------------------------------------------------

    def compile_server(self) -> Outcome:
        return self.across("compile server killed", lambda: _kill(_compile_server()), 3.0, fresh=True)

    def compile_child(self) -> Outcome:
        return self.across("compile child killed", lambda: _kill(_deepest(_compile_server())), 6.0, fresh=True)

    def referee(self) -> Outcome:
        return self.across("referee killed", lambda: _kill(_referee()), 4.0)

    def runner(self) -> Outcome:
        return self.across("runner killed", lambda: _kill(self.dice.choice(_children(_referee()) or [0])), 4.0)

    def coordinator(self) -> Outcome:
        """A run of the agent, killed and gone on with: its journal is whole, and nothing is asked twice."""
        self.count += 1
        journal = self.work / f"journal-{self.count}.jsonl"
        command = [sys.executable, "-m", "codasmith.agent"]
        options = ["--model", "builtin:tracer", "--journal", str(journal), *([] if self.gpu else ["--cpu-only"])]
        environment = {**os.environ, "CODASMITH_HOME": str(self.work / "home"), "CODASMITH_CACHE": str(self.work)}
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        process = subprocess.Popen([*command, "run", TASK, *options], **quiet)
        patience = time.monotonic() + 90
        while time.monotonic() < patience and not (journal.exists() and journal.stat().st_size):
            time.sleep(0.05)
        time.sleep(self.dice.random() * 6.0)
        since = time.monotonic()
        process.kill()
        process.wait()
        before = journal.read_text() if journal.exists() else ""
        again = ["resume", str(journal)] if before.count("\n") else ["run", TASK, *options]
        done = subprocess.run([*command, *again], **quiet, timeout=500)
        after = journal.read_text()
        whole = before[: before.rfind("\n") + 1]  # a last line may have been cut short
        events = [json.loads(line) for line in after.splitlines()]
        answers = [e["prompt_digest"] for e in events if e["event"] == "answer"]
        wrong = "" if done.returncode == 0 else f"going on ended with {done.returncode}"
        if not after.startswith(whole):
            wrong = "lines of the journal were lost"
        if len(answers) != len(set(answers)):
            wrong = "an answer was asked for twice"
        kept = len(whole.splitlines())
        return self.settle("coordinator killed", f"{kept} events kept, {again[0]} ended well", since, wrong)

    def writer(self) -> Outcome:
        """A process that writes entries into a store without end: every one that is seen is whole, and none goes."""
        store = self.work / "store"
        process = subprocess.Popen(
            [sys.executable, __file__, "--writer", str(store)], stdout=subprocess.PIPE, text=True
        )
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
        with _small_disk(self.work / "small", 2**15) as (folder, how):
            since = time.monotonic()
            if how == "tmpfs":
                before = session().compiler.folder
                verdict = gate.check(load_task(TASK), SOURCE, workspace=folder, schedules=SCHEDULES[:1]).verdict
                session().compiler.folder = before
                said, wrong = _said(verdict), "" if verdict.status in HONEST_MAY else f"{verdict.finding}"
            else:
                said, wrong = _limited("check", self.work)
        return self.settle(f"full disk while compiling ({how})", said, since, wrong)

    def full_disk_keeping(self) -> Outcome:
        since = time.monotonic()
        said, wrong = _limited("write", self.work)
        return self.settle("full disk while a record is written", said, since, wrong)

    def memory(self) -> Outcome:
        """The GPU's memory taken by another process."""
        _kill(_referee())
        session().close()
        hog = subprocess.Popen([sys.executable, __file__, "--hog"], stdout=subprocess.PIPE, text=True)
        assert hog.stdout is not None
        hog.stdout.readline()
        verdict = self.judge().verdict
        hog.kill()
        hog.wait()
        since = time.monotonic()
        session().close()
        wrong = "" if verdict.status in HONEST_MAY else f"{verdict.finding}"
        return self.settle("GPU out of memory", _said(verdict), since, wrong)

    # --- the kernel's own ----------------------------------------------------------------------------

    def hang(self) -> Outcome:
        return self.bad("f1_barrier", "kernel hangs", {"runner-hung"})

    def illegal(self) -> Outcome:
        return self.bad(
            "c9_beyond_the_end", "kernel writes beyond its output", {"guard-out-of-bounds", "illegal-access"}
        )

    def bad(self, name: str, fault: str, codes: set[str]) -> Outcome:
        (attack,) = attacks([name])
        verdict = gate.evaluate(
            load_task(attack.task),
            attack.source(self.work / "mark"),
            tier=attack.tier,
            workspace=self.work / "objects",
            schedules=SCHEDULES[:1],
            compile_baseline=False,
            rounds=9,
        ).verdict
        since = time.monotonic()
        code = verdict.finding.code if verdict.finding else ""
        return self.settle(fault, _said(verdict), since, "" if code in codes else f"{_said(verdict)}, not {codes}")


ON_CPU = {
    "compile_server": 3,
    "compile_child": 3,
    "coordinator": 2,
    "writer": 4,
    "full_disk_compiling": 1,
    "full_disk_keeping": 1,
}
ON_GPU = {
    **{"runner": 10, "referee": 6, "compile_server": 4, "compile_child": 4, "coordinator": 3, "writer": 4},
    **{"full_disk_compiling": 2, "full_disk_keeping": 2, "memory": 2, "hang": 1, "illegal": 2},
}


def _said(verdict: Any) -> str:
    return (
        f"{verdict.status}"
        + (f" ({verdict.finding.code})" if verdict.finding else "")
        + f" {verdict.note[:60]}" * bool(verdict.note)
    )


def _referee() -> int:
    child = session()._referee
    return child.process.pid if child is not None and child.alive else 0


def _compile_server() -> int:
    process = session().compiler._process
    return process.pid if process is not None and process.poll() is None else 0


def _children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parent and int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def _deepest(parent: int) -> int:
    """A process at the end of the line of children: one that compiles or links."""
    below = _children(parent)
    return _deepest(below[-1]) if below else parent


def _kill(process: int) -> None:
    if process:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[tuple[Path, str]]:
    """A file system of so many bytes where mounting is allowed."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    ).returncode == 0  # fmt: skip
    try:
        yield folder, "tmpfs" if mounted else "RLIMIT_FSIZE"
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True)


def _limited(what: str, work: Path) -> tuple[str, str]:
    """Do it in a process that may write small files only. Returns what it said, and what of it was wrong."""
    done = subprocess.run(
        [sys.executable, __file__, "--limited", what, str(work / "limited")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return "a crash", done.stderr.strip().splitlines()[-1][:200] if done.stderr else f"status {done.returncode}"
    said, _, wrong = lines[-1].partition("\t")
    return said, wrong


def limited(what: str, folder: Path) -> None:
    """In the process of `_limited`."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "store"
    if what == "write":
        first, second = [p.parent for p in sorted(SHIPPED.glob("*/*/record.json"))][:2]
        _copy(first, store)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            _copy(second, store)
            print("written\tit was written within 4 kB a file")
        except verified_kernels.RegistryError as error:
            found, damaged = scan(where=[store])
            wrong = "" if len(found) == 1 and not damaged else "an entry was lost or is damaged"
            print(f"{type(error).__name__}, what was there is whole\t{wrong}")
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    verdict = gate.check(load_task(TASK), SOURCE, workspace=folder, schedules=SCHEDULES[:1]).verdict
    print(f"{_said(verdict)}\t{'' if verdict.status in HONEST_MAY else verdict.finding}")


def writer(store: Path) -> None:
    """Copy shipped entries into the store again and again, and say which is in."""
    paths = [p.parent for p in sorted(SHIPPED.glob("*/*/record.json"))]
    while True:
        for path in paths:
            print(_copy(path, store), flush=True)
            shutil.rmtree(store / ".unused", ignore_errors=True)


def _copy(path: Path, store: Path) -> str:
    from codasmith.verified_kernels.store import write_entry

    entry = read_entry(path)
    names = {c.file for c in entry.record.objects}
    texts = {f.name: f.read_text() for f in path.iterdir() if f.is_file() and f.name not in (*names, "record.json")}
    return write_entry(store, entry.record, texts, {n: (path / n).read_bytes() for n in names}).name


def hog() -> None:
    """Take all of the GPU's memory but a little, until killed."""
    import torch

    held = []
    size = 2**30
    while size >= 2**24:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    print(f"{len(held)} blocks", flush=True)
    time.sleep(3600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="only the roles that need no GPU")
    parser.add_argument("--only", nargs="+", choices=sorted(ON_GPU), help="only these faults")
    parser.add_argument("--each", type=int, help="so many of each; by default 40 in all on a GPU")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=1e9, help="begin no fault after so many seconds")
    parser.add_argument("--out", type=Path, help="JSON lines, one fault a line")
    for hidden in ("--writer", "--limited"):
        parser.add_argument(hidden, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--hog", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        writer(Path(options.writer[0]))
    if options.limited:
        return limited(options.limited[0], Path(options.limited[1]))
    if options.hog:
        return hog()
    gpu = gate.has_gpu() and not options.cpu
    plan = {n: c for n, c in (ON_GPU if gpu else ON_CPU).items() if not options.only or n in options.only}
    listed = [name for name, count in plan.items() for _ in range(options.each or count)]
    dice = random.Random(options.seed)
    dice.shuffle(listed)
    started = time.monotonic()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="codasmith-faults-") as work:
        faults = Faults(Path(work), dice, gpu)
        verdict = faults.judge().verdict
        print(f"before any fault: {_said(verdict)} in {time.monotonic() - started:.1f} s", flush=True)
        if not verdict.ok:
            raise SystemExit("the honest kernel is not well here, so nothing can be learnt")
        for number, name in enumerate(listed, 1):
            if time.monotonic() - started > options.limit_s:
                print(f"the time is up: {len(listed) - len(outcomes)} of {len(listed)} were not begun", flush=True)
                break
            outcomes.append(getattr(faults, name)())
            print(f"{number:>3} {outcomes[-1]}", flush=True)
            if options.out:
                with options.out.open("a") as stream:
                    stream.write(json.dumps(asdict(outcomes[-1])) + "\n")
        session().close()
    wrong = [o for o in outcomes if o.wrong]
    slowest = max((o.well_s for o in outcomes), default=0.0)
    print(
        f"{len(outcomes)} faults, {len(wrong)} with something lost or wrong; well again after {slowest:.1f} s at most, "
        f"in {time.monotonic() - started:.0f} s on {'a GPU' if gpu else 'a CPU'}",
        flush=True,
    )
    raise SystemExit(bool(wrong) or not outcomes)


if __name__ == "__main__":
    main()
