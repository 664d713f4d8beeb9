"""The compile server's process, and one in reserve.

A server that is lost takes the jobs of some seconds with it, for the next has the whole compiler to import.  The one
in reserve has done that, in a sandbox of its own, and waits.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from . import sandbox
from .build import ENVIRONMENT


class Servers:
    """`start` gives the server, `reserve` prepares the next, `stop` ends both; from any thread.

    listen: called in a thread of its own with each server that has been started, until that ends.
    """

    def __init__(self, listen: Callable[[subprocess.Popen], None]):
        self.current: subprocess.Popen | None = None
        self.next: subprocess.Popen | None = None
        self.stopped: subprocess.Popen | None = None
        """The one that was last stopped on purpose."""
        self._listen = listen
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def start(self) -> subprocess.Popen:
        """The server; where it has ended, the one in reserve, or a new one."""
        with self._lock:
            if self.current is None or not _alive(self.current):
                spare, self.next = self.next, None
                self.current = spare if spare is not None and _alive(spare) else _spawn()
                threading.Thread(target=self._listen, args=(self.current,), daemon=True).start()
            return self.current

    def reserve(self) -> None:
        """Have another server import the compiler, if one is in use and none is in reserve."""
        with self._lock:
            if _alive(self.current) and not _alive(self.next):
                self.next = _spawn()

    def stop(self) -> None:
        """Stop the server with everything that it still compiles, and the one in reserve."""
        with self._lock:
            process, self.current = self.current, None
            spare, self.next = self.next, None
            self.stopped = process or self.stopped
        if spare is not None and _alive(spare):
            _kill(spare)
        if process is None or not _alive(process):
            return
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            _kill(process)


def _alive(process: subprocess.Popen | None) -> bool:
    return process is not None and process.poll() is None


def _kill(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()


def _spawn() -> subprocess.Popen:
    return subprocess.Popen(
        # -P: nothing is imported from the folder that happens to be the current one
        [sys.executable, "-P", "-m", "codasmith.templates.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=sandbox.environment() | ENVIRONMENT,
        start_new_session=True,
    )
