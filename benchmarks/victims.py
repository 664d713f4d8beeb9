"""Processes that `faults.py` starts in order to kill or to starve them; and how processes of the gate are found.

Run by path with what to do: `writer STORE`, `hog`, or `limited WHAT FOLDER`.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codasmith import gate, verified_kernels
from codasmith.gate.pipeline import session
from codasmith.tasks import load_task
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels.store import SHIPPED, read_entry, scan, write_entry

TASK = "rmsnorm_scale"
SOURCE = (Path(verified_kernels.__file__).parent / "hand_written" / f"{TASK}.py").read_text()
HONEST_MAY = {"passed", "checked", "failed"}
"""What an honest kernel may be said to be across a fault; failed claims nothing."""


def said(verdict: Any) -> str:
    """A verdict in a few words."""
    return (
        f"{verdict.status}"
        + (f" ({verdict.finding.code})" if verdict.finding else "")
        + f" {verdict.note[:60]}" * bool(verdict.note)
    )


# --- those of the gate ---------------------------------------------------------------------------------


def referee() -> int:
    child = session()._referee
    return child.process.pid if child is not None and child.alive else 0


def compile_server() -> int:
    process = session().compiler.server
    return process.pid if process is not None and process.poll() is None else 0


def children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parent and int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def deepest(parent: int) -> int:
    """A process at the end of the line of children: one that compiles or links."""
    below = children(parent)
    return deepest(below[-1]) if below else parent


def kill(process: int) -> None:
    if process:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return


# --- what runs out -------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[tuple[Path, str]]:
    """A file system of so many bytes where mounting is allowed; its kind, or what stands in for it."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield folder, "tmpfs" if mounted else "RLIMIT_FSIZE"
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True)


def limited(what: str, folder: Path) -> None:
    """Judge a kernel ("check") or write an entry ("write") where only small files can be written.

    Prints what was said and, after a tab, what of it was wrong.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "store"
    if what == "write":
        first, second = _entries()[:2]
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
    print(f"{said(verdict)}\t{'' if verdict.status in HONEST_MAY else verdict.finding}")


def writer(store: Path) -> None:
    """Copy shipped entries into the store again and again, and say which is in."""
    while True:
        for path in _entries():
            print(_copy(path, store), flush=True)
            shutil.rmtree(store / ".unused", ignore_errors=True)


def _entries() -> list[Path]:
    return [p.parent for p in sorted(SHIPPED.glob("*/*/record.json"))]


def _copy(path: Path, store: Path) -> str:
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


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "writer":
        writer(Path(rest[0]))
    elif what == "hog":
        hog()
    else:
        limited(rest[0], Path(rest[1]))
