"""The compile server: a process with everything imported, which forks a contained child for every job."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import namespaces, sandbox, watch
from .build import contained


def preload() -> None:
    """Import all that a build needs, so that children forked from here start at once."""
    for module in ("quack.epilogue.frontend", "quack.epilogue.ops", "quack.activation", "quack.gemm_sm90", "tvm_ffi"):
        importlib.import_module(module)
    for module in ("device", "finish", "sinks", "launch", "describe"):
        importlib.import_module(f"codasmith.templates.{module}")


NICE = 10


@dataclass(frozen=True)
class _Running:
    child: int
    path: str
    core: int
    deadline: float
    scratch: Path
    hostile: bool


def _free_core(cores: list[int], running: dict[int, _Running]) -> int:
    """The core that the fewest running jobs sit on."""
    taken = [r.core for r in running.values()]
    return min(cores, key=taken.count)


def apart(core: int) -> None:
    """Make this process a job of its own, on one core and behind whatever else wants that.

    The compiler starts a thread for every core that it may use, and as many jobs as cores, each with as many threads
    as cores, stand in each other's way for minutes.  And the gate may be timing a kernel meanwhile: its two processes
    answer each other many times a second, and must not wait for their turn.
    """
    os.setsid()
    os.nice(NICE)
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):  # where memory runs out, this one is the kernel's first choice
        Path("/proc/self/oom_score_adj").write_text("1000")


def serve() -> None:
    """Read job paths from standard input, build each in a fork, report each end on standard output.

    A line in: the path of a job.  A line out: {"job": path, "status": exit status, negative for a signal,
    "timed_out": bool, "excess": what there was too much of, or ""}.  Ends when standard input does; what still
    runs then is killed.
    """
    refused = namespaces.enter()
    out = os.fdopen(os.dup(1), "w")
    preload()
    held = sandbox.probe(refused)
    running: dict[int, _Running] = {}
    cores = list(os.sched_getaffinity(0))
    random.shuffle(cores)  # other servers on this machine begin with others
    waiting: list[str] = []
    open_input, buffer = True, b""
    print(json.dumps({"ready": True, "sandbox": held}), file=out, flush=True)
    while open_input or running or waiting:
        while waiting and len(running) < _parallel():
            path = waiting.pop(0)
            job = json.loads(Path(path).read_text())
            core = _free_core(cores, running)
            child = os.fork()
            if child == 0:
                apart(core)
                try:
                    contained(job)
                finally:
                    os._exit(1 if sys.exc_info()[0] else 0)
            deadline = time.monotonic() + job["limit_s"]
            hostile = job["tier"] != "closed"
            running[os.pidfd_open(child)] = _Running(child, path, core, deadline, Path(job["folder"]), hostile)
        ready, _, _ = select.select([*([0] if open_input else []), *running], [], [], 0.25)
        if 0 in ready:
            chunk = os.read(0, 65536)
            open_input = bool(chunk)
            *lines, buffer = (buffer + chunk).split(b"\n")
            waiting += [line.decode() for line in lines if line.strip()]
            if not open_input:
                waiting.clear()
                for job in running.values():
                    _kill(job.child)
        for fd, job in list(running.items()):
            timed_out = time.monotonic() > job.deadline
            excess = watch.excess(job.scratch, fd if job.hostile else None)
            if fd not in ready and not timed_out and not excess:
                continue
            if timed_out or excess:
                _kill(job.child)
            _, status = os.waitpid(job.child, 0)
            os.close(fd)
            del running[fd]
            code = os.waitstatus_to_exitcode(status)
            message = {"job": job.path, "status": code, "timed_out": timed_out, "excess": excess, "sandbox": held}
            print(json.dumps(message), file=out, flush=True)
        _reap({job.child for job in running.values()})
    os._exit(0)  # taking down the compiler's libraries takes seconds, and nothing is left to save


def _reap(children: set[int]) -> None:
    """Forget ended processes that a killed child has left behind; they come to the first process of a namespace."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and found.si_pid not in children:
            os.waitpid(found.si_pid, 0)


def _parallel() -> int:
    return int(os.environ.get("CODASMITH_COMPILE_JOBS", 0)) or max(1, min(16, len(os.sched_getaffinity(0))))


def _kill(child: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


if __name__ == "__main__":
    serve()
