"""Whether a compile child takes more than it may of what no limit of the kernel's counts.

Asked some times a second, from outside: files of its scratch folder, those that it has removed and still holds
open, and threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from . import sandbox

ENTRIES = 20_000
"""Files and folders; a compilation leaves some dozens."""
THREADS = 1024
_BLOCK = 512


def excess(folder: Path, pidfd: int | None = None) -> str:
    """What there is too much of, or "". pidfd: the job's process, to look at what it holds and has started too."""
    size, why = _folder(folder)
    processes = _family(_pid(pidfd)) if pidfd is not None else []
    size += sum(_removed(pid, folder) for pid in processes)
    if why:
        return why
    if size > sandbox.FOLDER:
        return f"it wrote more than {sandbox.FOLDER // 2**20} MiB of files"
    if sum(len(_names(f"/proc/{pid}/task")) for pid in processes) > THREADS:
        return f"it started more than {THREADS} threads"
    return ""


def remove(folder: Path) -> None:
    """Remove a folder, however deep and whatever its modes: Python's own way takes a call and a descriptor a level."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+rwx", "--", str(folder)], capture_output=True)
        subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True)


def _folder(folder: Path) -> tuple[int, str]:
    """Bytes of all files, and what is wrong with the folder; of what cannot be looked at, that is wrong."""
    size, count, waiting = 0, 0, [str(folder)]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    count += 1
                    if count > ENTRIES:
                        return size, f"it made more than {ENTRIES} files"
                    try:
                        size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                    except FileNotFoundError:
                        continue
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return size, f"it made files that cannot be counted ({error.strerror})"
    return size, ""


def _removed(pid: int, folder: Path) -> int:
    """Bytes of files without a name that a process holds open; of one that it has mapped, the most it can have."""
    size = 0
    for name in _names(f"/proc/{pid}/fd"):
        try:
            found = Path(f"/proc/{pid}/fd/{name}").stat()
        except OSError:
            continue
        size += found.st_blocks * _BLOCK if not found.st_nlink else 0
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    inodes = {line.split()[4] for line in lines if line.endswith(" (deleted)") and f" {folder.resolve()}/" in line}
    return size + len(inodes) * sandbox.FILE


def _family(pid: int) -> list[int]:
    """A process and those that it has started."""
    found = [pid] if pid > 0 else []
    for one in found:
        for task in _names(f"/proc/{one}/task"):
            try:
                found += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
            except OSError:
                continue
    return found


def _pid(pidfd: int) -> int:
    """The number under which /proc has a process: not the one of a namespace of its own."""
    try:
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), 0)


def _names(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(folder).iterdir()]
    except OSError:
        return []
