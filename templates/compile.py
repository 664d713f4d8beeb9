"""Compile kernels in child processes that see no GPU; the caller never imports quack.

One server process imports the compiler once and forks for every job, so that a job starts in milliseconds
and nothing it does (an abort of the compiler included) outlives it.  Results are kept by content: the same
source, schedule and template give the same object without compiling again.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from . import ABI
from .build import ENVIRONMENT
from .signature import Signature

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
    for name in ("build", "describe", "device", "finish", "sinks"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    for package in ("quack-kernels", "nvidia-cutlass-dsl"):
        digest.update(version(package).encode())
    return digest.hexdigest()


class Compiler:
    """The compile server. Use as a context manager, or `close` it; it also ends with the interpreter."""

    def __init__(self, folder: Path | None = None, tier: str = "closed"):
        self.folder = folder or cache_folder() / "objects"
        self.tier = tier
        self._process: subprocess.Popen | None = None
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[Future, Callable[[int, bool], Compiled]]] = {}

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(
        self, source: str, signature: Signature, *, tier: str | None = None, limit_s: float = LIMIT_S
    ) -> Future[Compiled]:
        """Compile `source` for the signature's schedule; the future gives a `Compiled`, whatever happens."""
        tier = tier or self.tier
        key = hashlib.sha256(
            json.dumps([source, signature.model_dump(mode="json"), template_digest(), tier], sort_keys=True).encode()
        ).hexdigest()
        folder = self.folder / key[:32]
        paths = {n: folder / n for n in ("job.json", "report.json", "compile.log", "kernel.so")}
        future: Future[Compiled] = Future()
        schedule = signature.schedule.name

        def result(status: int, timed_out: bool, cached: bool = False) -> Compiled:
            return _result(schedule, paths, status, timed_out, limit_s, cached)

        with self._lock:
            under_way = self._jobs.get(str(paths["job.json"]))
        if under_way:
            return under_way[0]
        if paths["report.json"].exists() and paths["kernel.so"].exists():
            found = result(0, False, cached=True)
            if found.ok:
                future.set_result(found)
                return future
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"e{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
        file.write_text(source)
        named = signature.model_copy(update={"symbol": f"codasmith_{key[:24]}"})
        job = {
            "source": str(file),
            "signature": named.model_dump(mode="json"),
            "tier": tier,
            "folder": str(folder),
            "object": str(paths["kernel.so"]),
            "report": str(paths["report.json"]),
            "log": str(paths["compile.log"]),
            "limit_s": limit_s,
        }
        paths["job.json"].write_text(json.dumps(job))
        with self._lock:
            under_way = self._jobs.get(str(paths["job.json"]))
            if under_way:  # another thread was faster; two builds of one job would share its files
                return under_way[0]
            paths["report.json"].unlink(missing_ok=True)
            process = self._server()
            self._jobs[str(paths["job.json"])] = (future, result)
            assert process.stdin is not None
            process.stdin.write(f"{paths['job.json']}\n".encode())
            process.stdin.flush()
        return future

    def close(self) -> None:
        """Stop the server and everything that it still compiles."""
        with self._lock:
            process, self._process = self._process, None
        if process and process.poll() is None:
            if process.stdin:
                process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def start(self) -> None:
        """Start importing the compiler now, so that the first job need not wait for it."""
        with self._lock:
            self._server()

    def _server(self) -> subprocess.Popen:
        if self._process is None or self._process.poll() is not None:
            environment = {k: v for k, v in os.environ.items() if not k.endswith(("_KEY", "_TOKEN", "_SECRET"))}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "codasmith.templates.build"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment | ENVIRONMENT,
                start_new_session=True,
            )
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
            atexit.register(self.close)
        return self._process

    def _listen(self, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            with self._lock:
                found = self._jobs.pop(message.get("job", ""), None)
            if found:
                found[0].set_result(found[1](message["status"], message["timed_out"]))
        status = process.wait()
        with self._lock:
            lost, self._jobs = list(self._jobs.values()), {}
        for future, result in lost:
            future.set_result(result(status, False))


def _result(
    schedule: str, paths: dict[str, Path], status: int, timed_out: bool, limit_s: float, cached: bool
) -> Compiled:
    try:
        report = json.loads(paths["report.json"].read_text())
    except (OSError, ValueError):
        report = {}
    common = {
        "schedule": schedule,
        "seconds": report.get("seconds", 0.0),
        "spill_bytes": report.get("spill_bytes"),
        "cached": cached,
    }
    if report.get("ok") and paths["kernel.so"].exists():
        signature = Signature.model_validate(report["signature"])
        return Compiled(object=paths["kernel.so"], signature=signature, stages=report.get("stages"), **common)
    if timed_out:
        error = f"compiling took longer than {limit_s:.0f} s and was stopped"
    elif "error" in report:
        error = report["error"]
    elif status < 0:
        error = f"the compiler was ended by signal {-status} ({signal.Signals(-status).name})"
    else:
        error = f"the compiler ended with status {status} and no report"
    return Compiled(error=error, line=report.get("where"), status=status, **common)


def compile_all(compiler: Compiler, jobs: Iterable[tuple[str, Signature]], tier: str = "closed") -> list[Compiled]:
    """Compile several kernels at once, in order."""
    return [future.result() for future in [compiler.submit(source, signature, tier=tier) for source, signature in jobs]]
