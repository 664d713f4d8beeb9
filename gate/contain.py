"""What the runner may do, since the objects that it loads are native code of whoever wrote the candidate.

It computes on the GPU, on buffers that the referee shares, and reads what Python and the CUDA driver need; it has
no network, no file but its own scratch folder, no key, and with an open candidate no other process.  In three
steps, for the driver needs more while it starts than afterwards: `enter` before there is a CUDA context, `seal` once
the shared buffers are open, `alone` before an object of the open tier is loaded.  A means that this machine lacks is
named, never passed over in silence.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from ..templates import landlock, sandbox, syscalls
from ..templates.sandbox import InForce

Way = Literal["whole", "late", "none"]
"""whole: files are taken before CUDA starts, from all threads. late: after, from the runner's own thread only, for a
driver that does not start within `enter`. none: nothing is taken; what that means is in the record."""
WAYS: tuple[Way, ...] = ("whole", "late", "none")
ASKED = ("files", "network", "processes", "others", "privileges")

GENERATED = "not taken: in the closed tier only generated code is loaded"
DESCRIPTORS = 4096
FILE = 2**30
_PROC = ("self", "driver", "devices", "cpuinfo", "meminfo", "stat", "version", "filesystems", "modules", "sys")
_DEATH_SIGNAL = 1  # prctl

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """A referee that is killed takes its runner along, even where that hangs in a kernel."""
    parent = os.getppid()
    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def folders(base: Path) -> tuple[Path, Path]:
    """Where the referee lays objects, which the runner reads; and where the runner may write."""
    objects, scratch = base / "objects", base / "scratch"
    objects.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    return objects, scratch


def enter(base: Path, way: Way) -> str:
    """Before CUDA starts: limits, and with "whole" the file system. Returns why files were not taken, or ""."""
    _, scratch = folders(base)
    os.chdir(scratch)
    for name, value in {"TMPDIR": scratch, "HOME": scratch, "CUDA_CACHE_PATH": scratch / "cuda"}.items():
        os.environ[name] = str(value)
    tempfile.tempdir = str(scratch)
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that is too large is an error, not the end
    return hold_files(base) if way == "whole" else ""


def seal(base: Path, way: Way, files: str) -> InForce:
    """Once CUDA runs: what is left of files, no network, no privileges.

    files: what `enter` returned. Returns by guarantee True, or why it does not hold; new processes and signals are
    left to `alone`, for row kernels of our own are compiled here.
    """
    held: InForce = dict.fromkeys(ASKED, "the runner could not be contained here")
    if way == "none":
        return held
    if way == "late":
        files = hold_files(base) or "taken from the runner's own thread only, for CUDA does not start without them"
    held["files"] = files or True
    try:
        sandbox.give_up_privileges()
        held["privileges"] = True
    except OSError as error:
        held["privileges"] = str(error)
    held["network"] = _refuse(alone=False) or True
    for name in ("processes", "others"):
        held[name] = GENERATED
    return held


def alone(held: InForce) -> InForce:
    """Before an object of the open tier is loaded: no new process, no signal to another, no terminal to write to."""
    if held["network"] is not True:
        return held
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        os.close(nothing)
    why = _refuse(alone=True)
    return held | {"processes": why or True, "others": why or True}


def _refuse(*, alone: bool) -> str:
    why = syscalls.available()
    if why:
        return why
    try:
        syscalls.refuse(alone=alone, with_cuda=True)
    except (OSError, RuntimeError) as error:
        return f"the filter of system calls was refused ({error})"
    return ""


def hold_files(base: Path) -> str:
    """Leave this thread the files that computing takes; why not, where the kernel does not do it."""
    if not landlock.version():
        return "the kernel has no Landlock"
    objects, scratch = folders(base)
    try:
        landlock.restrict([*_readable(), (objects, landlock.READ)], [scratch, Path("/dev/shm")], abstract_sockets=True)
    except OSError as error:
        return str(error)
    return ""


def _readable() -> list[tuple[Path, int]]:
    """What the compile child may read, and what the driver wants: its devices, /sys, and parts of /proc."""
    package = Path(__file__).resolve().parent
    devices = [p for p in Path("/dev").glob("nvidia*") if not p.is_dir()]
    devices += list(Path("/dev/nvidia-caps").glob("*")) if Path("/dev/nvidia-caps").is_dir() else []
    return [
        *sandbox.readable(),
        (package, landlock.READ),
        (Path("/sys"), landlock.READ),
        *((Path("/proc") / name, landlock.READ) for name in _PROC),
        (Path("/proc/self/task"), landlock.READ | landlock.WRITE_FILE),  # names of threads
        *((p, landlock.DEVICE) for p in devices),
        (Path("/dev"), landlock.READ_DIR),
        (Path("/etc/nvidia"), landlock.READ),
    ]


def lacking(held: InForce) -> list[str]:
    """The guarantees that were asked for and do not hold, with the reason."""
    return [f"{name} ({held.get(name, 'not tried')})" for name in ASKED if held.get(name) not in (True, GENERATED)]


@cache
def in_force() -> InForce:
    """What a runner on this machine would be held to, tried in a process of its own, without CUDA."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "codasmith.gate.contain"],
            env=sandbox.environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError, OSError):
        return dict.fromkeys(ASKED, "it could not be tried")


def _try() -> None:
    """Be contained, and attempt what must not succeed."""
    out = os.fdopen(os.dup(1), "w")
    parent = os.getppid()
    with tempfile.TemporaryDirectory(prefix="codasmith-runner-") as folder:
        outside = Path(folder) / "outside"
        outside.write_text("not for a runner")
        syscalls.available()  # loads the library, which starts processes to find it
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        base = Path(folder)
        held = alone(seal(base, "whole", enter(base, "whole")))
        tried = {
            "files": (outside.read_text, lambda: outside.write_text("x"), Path(f"/proc/{parent}/environ").read_bytes),
            "network": (socket.socket, lambda: socket.socket(socket.AF_UNIX)),
            "processes": (sandbox.fork_and_end, lambda: os.execv("/bin/true", ["true"])),
            "others": (
                lambda: os.kill(parent, 0),
                lambda: os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, 0)),
                lambda: outside.chmod(0o600),
            ),
            "privileges": (lambda: os.chroot("/"),),
        }
        for name, attempts in tried.items():
            if held[name] is True:
                held[name] = sandbox.all_fail("", *attempts)
        print(json.dumps(held), file=out, flush=True)
        os._exit(0)


if __name__ == "__main__":
    _try()
