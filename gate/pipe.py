"""A child process that takes commands and gives answers, one JSON line each.

JSON, not pickles: what a less trusted process says cannot run anything here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from ..templates.collect import plain_text

MAX_LINE = 16 * 2**20


class ChildFailed(RuntimeError):
    """The child died, hung, or answered out of turn: what happened, for a finding."""

    def __init__(self, message: str, code: str):
        super().__init__(message)
        self.code = code


class Child:
    """One module run as a process. environment: all that it is given; by default this process's own.

    wait: return when it says that it is ready; else call `ready` before the first command.
    limit_s: what a command may take, where it is not said with the command.
    awake_s: for so long an answer is waited for without sleeping: where it ends a time, a sleeping processor would
    add to it what waking up takes, up to 0.1 ms.
    """

    def __init__(
        self,
        module: str,
        *,
        start_s: float = 120.0,
        environment: dict[str, str] | None = None,
        wait: bool = True,
        limit_s: float = 60.0,
        awake_s: float = 0.0,
    ):
        self.module = module
        self.limit_s, self.awake_s = limit_s, awake_s
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],  # -P: nothing is imported from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        self._buffer = bytearray()
        self._number = 0
        if wait:
            self.ready(start_s)

    def ready(self, start_s: float = 120.0) -> dict[str, Any]:
        """Its first line. Raises ChildFailed where it never gets that far, or says there why it cannot begin."""
        answer = self.read(start_s)
        if answer.get("ready") is False:
            self.kill()
            raise ChildFailed(plain_text(str(answer.get("error", "it did not say why it cannot begin")), 4000), "start")
        return answer

    def send(self, op: str, limit_s: float | None = None, **arguments: Any) -> int:
        """Send a command and return its number. Raises ChildFailed where the child is dead or does not take it."""
        limit_s = self.limit_s if limit_s is None else limit_s
        self._number += 1
        rest = memoryview((json.dumps({"op": op, "number": self._number, **arguments}) + "\n").encode())
        assert self.process.stdin is not None
        deadline = time.monotonic() + limit_s
        try:
            fd = self.process.stdin.fileno()
            while rest:
                _, ready, _ = select.select([], [fd], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    self.kill()
                    raise ChildFailed(f"it did not take a command within {limit_s:.0f} s and was stopped", "hang")
                rest = rest[os.write(fd, rest) :]
        except (OSError, ValueError):  # ValueError: the pipe is closed, for the child was stopped before
            raise self._dead() from None
        return self._number

    def read(self, limit_s: float) -> dict[str, Any]:
        """The next line. Raises ChildFailed where the child dies, hangs or writes something else."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + limit_s
        asleep = time.monotonic() + min(self.awake_s, limit_s)
        fd = self.process.stdout.fileno()
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            while time.monotonic() < asleep and not select.select([fd], [], [], 0)[0]:
                pass
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self.kill()
                raise ChildFailed(f"it did not finish within {limit_s:.0f} s and was stopped", "hang")
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                raise self._dead()
            self._buffer += chunk
            if len(self._buffer) > MAX_LINE:
                self.kill()
                raise ChildFailed("it wrote more than an answer holds and was stopped", "flood")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            answer = json.loads(line)
            if not isinstance(answer, dict):
                raise ValueError
        except (ValueError, RecursionError):
            self.kill()
            raise ChildFailed("it wrote something that is no answer and was stopped", "forged") from None
        return answer

    def call(self, op: str, limit_s: float | None = None, **arguments: Any) -> dict[str, Any]:
        """A command and its answer. Raises ChildFailed where it fails."""
        limit_s = self.limit_s if limit_s is None else limit_s
        number = self.send(op, limit_s, **arguments)
        answer = self.read(limit_s)
        if answer.get("number") != number:
            self.kill()
            raise ChildFailed("it answered out of turn and was stopped", "forged")
        if not answer.get("ok"):
            raise ChildFailed(plain_text(str(answer.get("error", "it failed without a reason")), 4000), "error")
        return answer

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def _dead(self) -> ChildFailed:
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self.process.returncode
        if status < 0:
            name = signal.Signals(-status).name if -status in {int(s) for s in signal.Signals} else str(-status)
            return ChildFailed(f"the process was ended by signal {name}", "crash")
        return ChildFailed(f"the process ended with status {status}", "crash")
