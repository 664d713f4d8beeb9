"""Stores: folders of admitted kernels, `<task>/<digest>/`, that a person can read.

An entry holds `kernel.py`, `task.py`, `graph.json` where there is one (of a program `graphs.json`), compressed compiled
objects and `record.json`.  The record is the commit point: it is written last, by a rename, and what it does not name
does not exist.  So a reader needs no lock, and a writer that is killed leaves nothing that a reader sees.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ..gate.machine import home
from ..primitives.graph import Graph
from .errors import RegistryError
from .record import CompiledObject, Record, entry_digest

RECORD, SOURCE, TASK, GRAPH, GRAPHS = "record.json", "kernel.py", "task.py", "graph.json", "graphs.json"
LOCK_SECONDS = 60.0
SHIPPED = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Entry:
    """One admitted kernel, read and checked."""

    path: Path
    record: Record
    elsewhere: tuple[tuple[str, Path], ...] = ()
    """Storage dtypes of the record whose evidence another store holds, with the kernel's folder there."""

    @property
    def name(self) -> str:
        """Such as "rmsnorm_swiglu/1a2b3c4d5e6f"."""
        return f"{self.record.task}/{self.record.digest[:12]}"

    def __repr__(self) -> str:
        return f"<entry {self.name}, {self.record.tier}, {' and '.join(self.record.storages)}>"

    @property
    def folders(self) -> dict[str, Path]:
        """By storage dtype, where its evidence and its objects lie."""
        return {storage: self.path for storage in self.record.storages} | dict(self.elsewhere)

    def beside(self, other: Entry) -> Entry:
        """This entry with what another store has of the same kernel, for storage dtypes that are missing here."""
        more = tuple(e for e in other.record.evidence if e.storage not in self.record.storages)
        if not more:
            return self
        record = self.record.joined(other.record.model_copy(update={"evidence": more}))
        return Entry(self.path, record, (*self.elsewhere, *((e.storage, other.path) for e in more)))

    @property
    def source(self) -> str:
        return (self.path / SOURCE).read_text()

    @property
    def graph(self) -> Graph | None:
        return Graph.model_validate_json((self.path / GRAPH).read_text()) if GRAPH in self.record.files else None

    @property
    def graphs(self) -> dict[str, Graph]:
        """The epilogues as data by stage, where the tier has them; "" names the only one of a plain task."""
        if GRAPHS in self.record.files:
            found = json.loads((self.path / GRAPHS).read_text())
            return {stage: Graph.model_validate(graph) for stage, graph in found.items()}
        return {"": graph} if (graph := self.graph) else {}

    def library(self, compiled: CompiledObject) -> bytes:
        """The unpacked shared library of one of the record's objects. Raises RegistryError if it is damaged."""
        where = self.folders[compiled.storage] / compiled.file
        packed = _read(where)
        if _sha256(packed) != compiled.packed_sha256:
            raise RegistryError(f"{where} was changed after admission; verify the kernel again")
        try:
            library = lzma.decompress(packed)
        except lzma.LZMAError as error:
            raise RegistryError(f"{where} cannot be unpacked ({error}); verify the kernel again") from None
        if _sha256(library) != compiled.sha256:
            raise RegistryError(f"{where} holds another library than was admitted; verify it again")
        return library


def user_store() -> Path:
    return home() / "kernels"


def stores() -> tuple[Path, ...]:
    """Where kernels are looked for: the user's own first, whose evidence so goes before that of a shipped entry of the
    same digest, each storage dtype by itself."""
    return (user_store(), SHIPPED)


def read_entry(path: Path) -> Entry:
    """Read one entry and check every byte of it. Raises RegistryError naming the damaged file."""
    # A writer may replace the record, and with it the objects, between two of our reads: then the second try is whole.
    for last in (False, True):
        record = Record.loads(_read(path / RECORD).decode(errors="replace"), str(path / RECORD))
        try:
            _check_files(path, record)
            return Entry(path, record)
        except RegistryError:
            if last:
                raise
    raise AssertionError


def _check_files(path: Path, record: Record) -> None:
    expected = {**record.files, **{o.file: o.packed_sha256 for o in record.objects}}
    for file, digest in expected.items():
        if _sha256(_read(path / file)) != digest:
            raise RegistryError(f"{path / file} was changed after admission; verify the kernel again")
    source = _read(path / SOURCE).decode(errors="replace")
    if not record.digest == path.name == entry_digest(source, record.task_digest, record.abi):
        raise RegistryError(f"{path} does not hold the kernel that its name says; remove it or verify the kernel again")


def scan(task: str | None = None, where: Sequence[Path] | None = None) -> tuple[list[Entry], list[str]]:
    """All readable entries (of one task), best first, and a sentence for each that is damaged.

    What several stores hold of one kernel is one entry. Of a task's, those of the closed tier come before native code
    of their author's, and then the least tax.
    """
    found: dict[str, Entry] = {}
    problems: list[str] = []
    for root in stores() if where is None else where:
        for path in _folders(root, task):
            try:
                entry = read_entry(path)
            except RegistryError as error:
                problems.append(str(error))
                continue
            found[path.name] = found[path.name].beside(entry) if path.name in found else entry
    ranked = sorted(found.values(), key=_rank)
    return ranked, problems


def _rank(entry: Entry) -> tuple[str, bool, float, str]:
    record = entry.record
    return record.task, record.tier != "closed", record.tax or float("inf"), record.digest


def _folders(root: Path, task: str | None) -> Iterator[Path]:
    try:
        tasks = [root / task] if task else sorted(p for p in root.iterdir() if not p.name.startswith("."))
        for folder in tasks:
            if folder.is_dir():
                yield from sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    except FileNotFoundError:
        return


def write_entry(
    root: Path,
    record: Record,
    texts: dict[str, str],
    libraries: dict[str, bytes],
    join: Callable[[Record, Record], Record] = Record.joined,
) -> Entry:
    """Put an entry into a store, or add its evidence to the one that is there (whose text files stay).

    texts: the text files by name. libraries: packed bytes by the record's file names.
    join: makes one record of the one that is there and this one.
    Raises RegistryError where the store cannot be written; nothing is left half done.
    """
    target = root / record.task / record.digest
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".lock", timeout=LOCK_SECONDS):
            _sweep(root)
            staging = root / f".staging-{uuid.uuid4().hex}"
            try:
                _write(root, target, staging, record, texts, libraries, join)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except Timeout:
        raise RegistryError(
            f"another process has held {root / '.lock'} for {LOCK_SECONDS:.0f} s; wait for it or end it, then try again"
        ) from None
    except OSError as error:
        raise RegistryError(
            f"{root} cannot be written ({error.strerror or error}); free space there, or name another folder (your own "
            "is that of CODASMITH_HOME)"
        ) from None
    return read_entry(target)


def _write(
    root: Path,
    target: Path,
    staging: Path,
    record: Record,
    texts: dict[str, str],
    libraries: dict[str, bytes],
    join: Callable[[Record, Record], Record],
) -> None:
    staging.mkdir()
    try:
        record = join(read_entry(target).record, record)
    except RegistryError:
        # Nothing there, or damaged: a whole new entry takes the place.
        if target.exists():
            target.rename(root / f".staging-{uuid.uuid4().hex}")
    for name, data in {**{k: v.encode() for k, v in texts.items()}, **libraries}.items():
        _write_file(staging / name, data)
    _write_file(staging / RECORD, record.dumps().encode())
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        _flush_folder(staging)
        staging.rename(target)
        _flush_folder(target.parent)
        return
    for name in libraries:  # names carry the content's digest, so none replaces different bytes
        (staging / name).replace(target / name)
    _flush_folder(target)
    (staging / RECORD).replace(target / RECORD)  # from here on the new evidence exists
    _flush_folder(target)
    named = {RECORD, *record.files, *(o.file for o in record.objects)}
    for path in target.iterdir():
        if path.name not in named:
            path.unlink()


def _sweep(root: Path) -> None:
    """Remove what killed writers left; we hold the lock, so none of it is in use."""
    for path in root.glob(".staging-*"):
        shutil.rmtree(path, ignore_errors=True)


def _write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RegistryError(f"{path} cannot be read ({error.strerror}); verify the kernel again") from None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def now() -> str:
    """The time, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
