"""Bringing kernels that were admitted elsewhere into a store, without verifying them again.

Copying a folder over another loses the evidence that was there; this keeps, for each storage dtype, the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..tasks import shipped_task
from .errors import RegistryError
from .load import stale
from .record import Record
from .store import RECORD, Entry, read_entry, user_store, write_entry


class Added(BaseModel):
    """What became of one entry that was found."""

    model_config = ConfigDict(frozen=True)

    found: str
    """Its folder."""
    name: str = ""
    """Such as "rmsnorm_swiglu/1a2b3c4d5e6f"; empty where the record could not be read."""
    outcome: Literal["added", "there", "refused"]
    storages: tuple[str, ...] = ()
    """The storage dtypes whose evidence is new here."""
    note: str = ""
    """Why it was refused, or what was there."""


def add(folders: Sequence[Path], store: Path | None = None) -> list[Added]:
    """Add the entries under these folders to a store, by default the user's own; one result an entry found.

    folders: stores, homes (folders with a store called `kernels`), a task's folder in a store, or single entries.
    Every byte is compared with its record before anything is written; nothing that was found is run.  A record is not
    signed, so take entries from people whose programs you would run.
    Raises RegistryError for a folder that holds no entry, and where the store cannot be written.
    """
    found = [path for folder in folders for path in _entries(folder)]
    return [_add(path, store or user_store()) for path in found]


def _entries(folder: Path) -> list[Path]:
    paths = {p.parent for deep in range(4) for p in folder.glob("*/" * deep + RECORD)}
    seen = sorted(p for p in paths if not any(part.startswith(".") for part in p.relative_to(folder).parts))
    if not seen:
        why = "has no entry of a store in it" if folder.is_dir() else "is no folder"
        raise RegistryError(f"{folder} {why}; name a store, such as {user_store()}, or a folder TASK/DIGEST of one")
    return seen


def _add(path: Path, store: Path) -> Added:
    try:
        entry = read_entry(path.resolve())
        _check(entry)
    except RegistryError as error:
        return Added(found=str(path), outcome="refused", note=str(error))
    record, target = entry.record, store / entry.record.task / entry.record.digest
    try:
        before: Record | None = read_entry(target).record
    except RegistryError:
        before = None
    merged = before.newest(record) if before else record
    gained = tuple(e.storage for e in merged.evidence if before is None or e != before.of(e.storage))
    if not gained:
        note = f"{entry.name} has evidence for {', '.join(record.storages)} as new or newer in {store}"
        return Added(found=str(path), name=entry.name, outcome="there", note=note)
    texts = {name: (entry.path / name).read_bytes().decode() for name in record.files}
    packed = {o.file: (entry.path / o.file).read_bytes() for o in record.objects}
    write_entry(store, record, texts, packed, join=Record.newest)
    return Added(found=str(path), name=entry.name, outcome="added", storages=gained)


def _check(entry: Entry) -> None:
    """Raise RegistryError for an entry that no store would hold, or that nothing here could load."""
    record = entry.record
    names = (*record.files, *(o.file for o in record.objects))
    odd = next((n for n in names if Path(n).name != n or n.startswith(".")), None)
    if odd is not None:
        raise RegistryError(f"{entry.path} names a file {odd!r}, which is no plain name; verify the kernel here")
    if not record.task.isidentifier():
        raise RegistryError(f"{entry.path} answers a task called {record.task!r}, which is no name; verify it here")
    if not record.evidence or not record.objects:
        raise RegistryError(f"{entry.path} holds no compiled object; verify the kernel here")
    # A task of somebody's own is not looked at: its file would have to be run.
    task = shipped_task(record.task)
    if task is not None and (why := stale(entry, task)):
        raise RegistryError(why)
    for compiled in record.objects:
        entry.library(compiled)
