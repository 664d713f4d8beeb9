"""Compile kernels in child processes that see no GPU; the caller never imports quack.

One server process imports the compiler once and forks for every job, so that a job starts in milliseconds
and nothing it does (an abort of the compiler included) outlives it.  Results are kept by content: the same
source, schedule and template give the same object without compiling again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import ABI
from .collect import collect, earlier
from .servers import Servers
from .signature import Signature

ROOM = 2**22
"""Bytes: with less on the disk, what a compilation leaves does not fit."""
LIMIT_S = 120.0
"""Wall time after which one compilation is stopped."""


@dataclass(frozen=True)
class Compiled:
    """What came of one compilation."""

    schedule: str
    seconds: float
    object: Path | None = None
    """The linked library; None if it failed."""
    signature: Signature | None = None
    spill_bytes: int | None = None
    stages: int | None = None
    """Pipeline stages left to the mainloop once the epilogue has its shared memory."""
    error: str = ""
    line: int | None = None
    """Line of the compiled source that the failure points at."""
    status: int = 0
    """Exit status of the compiling process; negative for a signal."""
    cached: bool = False
    sandbox: dict[str, bool | str] = field(default_factory=dict)
    """What the compile child was held to: True, or why not, by guarantee."""

    @property
    def ok(self) -> bool:
        return self.object is not None


def cache_folder() -> Path:
    """Where compiled objects are kept: CODASMITH_CACHE, or ~/.cache/codasmith."""
    return Path(os.environ.get("CODASMITH_CACHE") or Path.home() / ".cache" / "codasmith")


@cache
def template_digest() -> str:
    """sha256 over the files that shape an object beside its source: one made by another template is not reused."""
    digest = hashlib.sha256(ABI.encode())
    for name in ("build", "describe", "device", "finish", "link", "pipeline_stages", "resources", "sinks"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    for package in ("quack-kernels", "nvidia-cutlass-dsl"):
        digest.update(version(package).encode())
    return digest.hexdigest()


@dataclass
class _Pending:
    """A job under way: its key, and what makes a result of the server's message."""

    key: str
    result: Callable[[dict[str, Any]], Compiled]
    server: subprocess.Popen | None = None
    again: bool = False
    """Whether it was lost before."""


class Compiler:
    """The compile server. Use as a context manager, or `close` it; it also ends with the interpreter.

    reserve: keep another server in reserve, once there is nothing to compile, so that one that is lost is replaced at
    once; it takes some 350 MB of memory.
    """

    def __init__(
        self, folder: Path | None = None, tier: str = "closed", limit_s: float = LIMIT_S, *, reserve: bool = False
    ):
        self.folder = folder or cache_folder() / "objects"
        self.limit_s = limit_s
        self.tier = tier
        self.reserve = reserve
        self._servers = Servers(self._listen)
        self._lock = threading.Lock()
        self._jobs: dict[str, _Pending] = {}
        """By the path of a job."""
        self._futures: dict[str, Future[Compiled]] = {}
        """By key, what is under way."""

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(
        self, source: str, signature: Signature, *, tier: str | None = None, limit_s: float | None = None
    ) -> Future[Compiled]:
        """Compile `source` for the signature's schedule; the future gives a `Compiled`, whatever happens."""
        tier, limit_s = tier or self.tier, limit_s or self.limit_s
        key = hashlib.sha256(
            json.dumps([source, signature.model_dump(mode="json"), template_digest(), tier], sort_keys=True).encode()
        ).hexdigest()
        folder = (self.folder / key[:32]).absolute()
        future: Future[Compiled] = Future()
        schedule = signature.schedule.name
        with self._lock:
            if key in self._futures:
                return self._futures[key]
            self._futures[key] = future
        if kept := earlier(folder):
            with self._lock:
                del self._futures[key]
            future.set_result(_result(schedule, folder, kept, {"status": 0}, limit_s, cached=True))
            return future
        named = signature.model_copy(update={"symbol": f"codasmith_{key[:24]}"})
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"e{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
            file.write_text(source)
            # The child writes here and nowhere else; a new folder each time, for an earlier child may have left links.
            scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=folder))
            path = folder / f"{scratch.name}.json"
            job = {
                "source": str(file),
                "signature": named.model_dump(mode="json"),
                "tier": tier,
                "folder": str(scratch),
                "object": str(scratch / "kernel.so"),
                "report": str(scratch / "report.json"),
                "log": str(scratch / "compile.log"),
                "limit_s": limit_s,
            }
            path.write_text(json.dumps(job))
        except OSError:
            with self._lock:
                del self._futures[key]
            raise

        def result(message: dict[str, Any]) -> Compiled:
            path.unlink(missing_ok=True)
            ended_well = message["status"] == 0
            report = collect(scratch, folder, named, tier, message.get("sandbox", {}), ended_well)
            return _result(schedule, folder, report, message, limit_s)

        with self._lock:
            process = self._servers.start()
            self._jobs[str(path)] = _Pending(key, result)
            self._send(process, str(path))
        return future

    def close(self) -> None:
        """Stop the server and everything that it still compiles."""
        self._servers.stop()

    def start(self) -> None:
        """Start importing the compiler now, so that the first job need not wait for it."""
        with self._lock:
            self._servers.start()

    @property
    def server(self) -> subprocess.Popen | None:
        """The process that takes jobs at present, if there is one."""
        return self._servers.current

    def _send(self, process: subprocess.Popen, path: str) -> None:
        self._jobs[path].server = process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # the listener sees the end too
            process.stdin.write(f"{path}\n".encode())
            process.stdin.flush()

    def _listen(self, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            killed = message.get("status") == -signal.SIGKILL
            if killed and not message.get("timed_out") and not message.get("excess"):
                self._lost(process, message["job"], message)
                continue
            with self._lock:
                found = self._jobs.pop(message.get("job", ""), None)
            if found:
                self._answer(found.key, found.result, message)
        status = process.wait()
        with self._lock:
            lost = [path for path, job in self._jobs.items() if job.server is process]
        for path in lost:
            self._lost(process, path, {"status": status})

    def _lost(self, process: subprocess.Popen, path: str, message: dict[str, Any]) -> None:
        """A job whose process was killed from outside, or went with the server: once more, and then that is the answer.

        What kills a process need not be the candidate: a user, or a machine that is short of memory.
        """
        with self._lock:
            job = self._jobs[path]
            if not job.again and process is not self._servers.stopped:
                job.again = True
                self._send(self._servers.start(), path)
                return
            del self._jobs[path]
        self._answer(job.key, job.result, message)

    def _answer(self, key: str, result: Callable[[dict[str, Any]], Compiled], message: dict[str, Any]) -> None:
        try:
            compiled = result(message)
        except Exception as error:  # a full disk, say: whoever waits must hear of it
            compiled = Compiled(schedule="", seconds=0.0, error=f"the object could not be kept: {error}", status=1)
        with self._lock:
            future = self._futures.pop(key)
            if self.reserve and not self._jobs:
                self._servers.reserve()
        future.set_result(compiled)


def _full(folder: Path) -> bool:
    """Whether there is too little room for what a compilation leaves."""
    try:
        return shutil.disk_usage(folder).free < ROOM
    except OSError:
        return False


def _result(
    schedule: str, folder: Path, report: dict[str, Any], message: dict[str, Any], limit_s: float, cached: bool = False
) -> Compiled:
    status = message["status"]
    common = {
        "schedule": schedule,
        "seconds": report.get("seconds", 0.0),
        "spill_bytes": report.get("spill_bytes"),
        "cached": cached,
        "sandbox": report.get("sandbox", {}),
    }
    if report.get("ok"):
        signature = Signature.model_validate(report["signature"])
        return Compiled(object=folder / "kernel.so", signature=signature, stages=report.get("stages"), **common)
    if message.get("excess"):
        error = f"compiling was stopped: {message['excess']}"
    elif message.get("timed_out"):
        error = f"compiling took longer than {limit_s:.0f} s and was stopped"
    elif "error" in report:
        error = report["error"]
    elif _full(folder):
        error = f"No space left on device for {folder.parent}"
    elif status == 0:
        error = "the module ended the compiling process before it was done"
    elif status < 0:
        error = f"the compiler was ended by signal {-status} ({signal.Signals(-status).name})"
    else:
        error = f"the compiler ended with status {status} and no report"
    return Compiled(error=error, line=report.get("where"), status=status, **common)
