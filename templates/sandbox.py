"""What a compile child may do: read Python and the compiler, write its scratch folder, compute; within limits.

A candidate of the open tier is a Python module, and compiling it runs it.  So: no network, no GPU, no other
process, no file beyond those, no key in its environment, no descriptor of its parent's.  Three means, each of
which the kernel may refuse, and what they come to is found by trying (`in_force`):

- Landlock takes the file system away, device files with it.
- A filter of system calls takes sockets, new processes, signals and the wide doors into the kernel.
- Namespaces, held by the compile server, stand behind both.

Limits on memory, file sizes, descriptors and processor time, and no capabilities, are there always.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import mmap
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from . import landlock, namespaces, syscalls

InForce = dict[str, bool | str]
"""By guarantee: True, or why it does not hold."""

MEMORY = 16 * 2**30
"""Bytes of address space beyond what the server has mapped."""
FILE = 256 * 2**20
FOLDER = 512 * 2**20
"""Bytes of all files in the scratch folder; watched from outside."""
DESCRIPTORS = 256
ASKED = ("files", "network", "gpu", "processes", "others", "memory", "file size", "privileges")

_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "CC", "CODASMITH_COMPILE_JOBS")
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_VISIBLE = ("templates", "primitives")
"""The parts of this package that a build imports; records, tasks and the gate are none of a candidate's business."""


def environment() -> dict[str, str]:
    """The variables that a compile server is given: a short list, so that no key can be among them."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def readable() -> list[tuple[Path, int]]:
    """What a compile child may read, with its rights: Python, its packages, the system's libraries and compiler."""
    roots = [Path(p) for p in (*sys.path, sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"]) if p]
    roots += [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    roots += compiler_folders()
    found = {p.resolve() for p in (*roots, *map(Path, _SYSTEM)) if p.is_absolute() and p.exists()}
    outermost = [p for p in found if not any(p != q and p.is_relative_to(q) for q in found)]
    package = Path(__file__).resolve().parent.parent
    rules = [rule for root in sorted(outermost) for rule in _around(root, package)]
    rules += [(package / part, landlock.READ) for part in _VISIBLE]
    return rules + [(Path(d), landlock.READ_FILE | landlock.WRITE_FILE) for d in _DEVICES]


@cache
def compiler_folders() -> list[Path]:
    """Where the C compiler that links lies, and where it says that its parts are: it need not live under /usr.

    Asked once, before there is a sandbox to ask from: a child may start nothing but the linker.
    """
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if not compiler:
        return []
    said = subprocess.run([compiler, "-print-search-dirs"], capture_output=True, text=True, timeout=30).stdout
    listed = [name for line in said.splitlines() for name in line.partition(": ")[2].removeprefix("=").split(":")]
    folders = {Path(name).resolve() for name in listed if name.startswith("/") and Path(name).is_dir()}
    return [Path(compiler).resolve().parent, *sorted(folders - {Path("/")})]


def _around(root: Path, hidden: Path) -> list[tuple[Path, int]]:
    """Everything below root but `hidden`; names can still be listed, for Python finds modules by listing.

    A link is followed here, not by the kernel: lib64 of a virtual environment is another way to its lib.
    """
    root = root.resolve()
    if root == hidden:
        return []
    if not hidden.is_relative_to(root):
        return [(root, landlock.READ)]
    within = [p for p in sorted(root.iterdir()) if not (p.is_symlink() and _leads_to(p, root, hidden))]
    return [(root, landlock.READ_DIR)] + [rule for p in within for rule in _around(p, hidden)]


def _leads_to(link: Path, root: Path, hidden: Path) -> bool:
    """Whether a link leads to what has its own rule, to what is hidden, to a folder around that, or nowhere."""
    target = link.resolve()
    return target.is_relative_to(root) or hidden.is_relative_to(target) or not target.exists()


def enter(scratch: Path, cpu_s: float, also: tuple[Path, ...] = ()) -> None:
    """Leave this process, and what it starts, its scratch folder and the limits; `also` is readable.

    It may still start the linker; `seal` takes that too.  Raises OSError where a means that the kernel has fails.
    """
    os.chdir(scratch)
    for name in ("TMPDIR", "HOME"):
        os.environ[name] = str(scratch)
    tempfile.tempdir = str(scratch)
    _close_descriptors()
    _limit(cpu_s)
    if landlock.version():
        landlock.restrict([*readable(), *((p, landlock.READ) for p in also)], [scratch])
    if not syscalls.available():
        syscalls.refuse(alone=False)
    give_up_privileges()


def seal() -> None:
    """From here on no new process, no signal to another, and nothing to run but what is loaded."""
    if not syscalls.available():
        syscalls.refuse(alone=True)


def _close_descriptors() -> None:
    """Keep standard error and output; nothing comes in, and no pipe of the server's is left to write to."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _limit(cpu_s: float) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    seconds = math.ceil(cpu_s) + 1
    for kind, most in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, DESCRIPTORS),  # timers count, and all of a user's processes together
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def give_up_privileges() -> None:
    """Root without its powers: it could lift the limits otherwise."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; those that the kernel does not have fail
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        raise OSError(ctypes.get_errno(), "capabilities could not be given up")
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


# --- what holds, found by trying -------------------------------------------------------------------


@cache
def in_force() -> InForce:
    """What compile children on this machine are held to, tried in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "codasmith.templates.sandbox"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return dict.fromkeys(ASKED, "the sandbox could not be tried")


def lacking(found: InForce) -> list[str]:
    """The guarantees that were asked for and do not hold, with the reason."""
    return [f"{name} ({found.get(name, 'not tried')})" for name in ASKED if found.get(name) is not True]


def probe(refused_namespaces: str) -> InForce:
    """Put a child into the sandbox, let it try everything, and say what held."""
    compiler_folders()
    with tempfile.TemporaryDirectory(prefix="codasmith-sandbox-") as folder:
        scratch, outside = Path(folder) / "scratch", Path(folder) / "outside"
        scratch.mkdir()
        outside.write_text("not for a child")
        child = os.fork()
        if child == 0:
            try:
                enter(scratch, 60)
                parent = os.getpid()
                inner = os.fork()
                if inner == 0:
                    seal()
                    (scratch / "found").write_text(json.dumps(_try(outside, parent)))
                else:
                    os.waitpid(inner, 0)
            except BaseException as error:
                (scratch / "failed").write_text(f"{type(error).__name__}: {error}")
            os._exit(0)
        os.waitpid(child, 0)
        if (scratch / "found").exists():
            found: InForce = json.loads((scratch / "found").read_text())
        else:
            why = (scratch / "failed").read_text() if (scratch / "failed").exists() else "the child was ended"
            found = dict.fromkeys(ASKED, f"the sandbox could not be set up: {why}")
    found["namespaces"] = refused_namespaces or True
    if found.get("network") is not True and not refused_namespaces:
        found["network"] = True  # sockets, yes, and nothing that they reach
    return found


def _try(outside: Path, parent: int) -> InForce:
    files = "" if landlock.version() else "the kernel has no Landlock"
    calls = syscalls.available()
    found: InForce = {
        "files": all_fail(
            files, outside.read_text, lambda: outside.write_text("x"), lambda: outside.parent.iterdir().__next__()
        ),
        "network": all_fail(calls, socket.socket, lambda: socket.socket(socket.AF_UNIX)),
        "gpu": all_fail(files, *(lambda p=p: os.close(os.open(p, os.O_RDWR)) for p in _devices())),
        "processes": all_fail(calls, fork_and_end, lambda: os.execv("/bin/true", ["true"])),
        "others": all_fail(
            calls,
            lambda: os.kill(parent, 0),
            lambda: os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, 0)),
            lambda: fcntl.fcntl(1, fcntl.F_SETOWN, parent),
            lambda: outside.chmod(0o600),
            lambda: os.utime(outside),
        ),
        "memory": all_fail("", lambda: mmap.mmap(-1, MEMORY + 2**30).close()),
        "file size": all_fail("", lambda: os.truncate(_made(outside.parent / "scratch" / "large"), FILE + 1)),
        "privileges": all_fail(
            "", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS + 1, DESCRIPTORS + 1))
        ),
    }
    return found


def _devices() -> list[str]:
    return [p for p in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/ptmx") if Path(p).exists()]


def _made(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def fork_and_end() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def all_fail(why: str, *attempts: Callable[[], object]) -> bool | str:
    """True if none of them can be done."""
    for attempt in attempts:
        try:
            attempt()
        except (OSError, ValueError, MemoryError):
            continue
        return why or "it was tried and was not refused"
    return True


def main() -> None:
    refused = namespaces.enter()
    syscalls.available()  # loads the library, which starts processes to find it
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    print(json.dumps(probe(refused)), flush=True)


if __name__ == "__main__":
    main()
