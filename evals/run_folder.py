"""A run on disk: what was asked (run.json), one row a finished sample (results.jsonl), and the samples' journals.

results.jsonl is append-only, one JSON object a line, each on the disk before the run goes on.  Rows are computed from
journals, so a line that a kill cut short is taken away and computed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from ..agent.errors import UserMistake, cannot_write
from .judging import KEPT
from .rows import Key, Row

SPEC, ROWS, JOURNALS = "run.json", "results.jsonl", "journals"


class RunSpec(BaseModel):
    """What was asked: the same for every sample, so that scores compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["codasmith-eval-run/1"] = "codasmith-eval-run/1"
    version: str
    """Of codasmith."""
    set: str
    """The set's name, or its folder."""
    set_digest: str
    tasks: tuple[str, ...] | None = None
    """Some of the set's tasks; None for all."""
    models: tuple[str, ...]
    model_options: dict[str, Any] = {}
    tiers: tuple[str, ...] = ("closed",)
    storage: str = "bf16"
    samples: int
    attempts: int | None
    tokens: int | None = None
    dollars: float | None = None
    minutes: float | None = None
    target_tax: float | None
    """A sample goes on for a faster kernel until its tax is this, or its budget is spent."""
    cpu_only: bool
    shapes: int | None = None
    """Each task is timed at so many of its shapes, from the first on; None for all."""
    shard: str = "1/1"
    """Which part of the samples this folder holds, "2/4"."""


class RunFolder:
    """A run's folder, held by one process. Use as a context manager to write to it."""

    def __init__(self, path: Path):
        self.path = Path(path)

    def open(self, spec: RunSpec) -> None:
        """Begin the run, or go on with it. Raises UserMistake where another run is in the folder."""
        file = self.path / SPEC
        if not file.exists():
            if self.path.exists() and any(p.name not in (".lock", KEPT) for p in self.path.iterdir()):
                raise UserMistake(f"the folder {self.path} holds something else than a run; name a new one with --out")
            with _kept(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                temporary = file.with_suffix(".new")
                temporary.write_text(spec.model_dump_json(indent=1) + "\n", encoding="utf-8")
                temporary.replace(file)
        before = self.spec()
        for field in RunSpec.model_fields:
            old, new = getattr(before, field), getattr(spec, field)
            if old != new:
                from .asked import command_of

                raise UserMistake(
                    f"the run in {self.path} was begun with other {field.replace('_', ' ')} ({_in_words(old)}, and now "
                    f"{_in_words(new)}): {command_of(before)}; give that command to go on, or name a new one with --out"
                )

    def spec(self) -> RunSpec:
        file = self.path / SPEC
        try:
            return RunSpec.model_validate_json(file.read_text(encoding="utf-8"))
        except OSError:
            raise UserMistake(f"{self.path} is not the folder of a run: there is no {SPEC} in it") from None
        except ValidationError as error:
            first = error.errors()[0]
            raise UserMistake(f"{file} is damaged ({'.'.join(map(str, first['loc']))}: {first['msg']})") from None

    def rows(self) -> list[Row]:
        """Every row that is whole; of two with the same key, the first."""
        found: dict[Key, Row] = {}
        try:
            lines = (self.path / ROWS).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        for line in lines:
            try:
                row = Row.model_validate_json(line)
            except ValidationError:
                continue  # cut short or damaged: its sample is computed again from the journal
            found.setdefault(row.key, row)
        return list(found.values())

    def add(self, row: Row) -> None:
        """Append one row; it is on the disk when this returns."""
        with _kept(self.path):
            handle = os.open(self.path / ROWS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                whole = _whole(handle)
                if whole != os.fstat(handle).st_size:
                    os.ftruncate(handle, whole)
                line = row.model_dump_json().encode() + b"\n"
                while line:
                    line = line[os.write(handle, line) :]
                os.fsync(handle)
            finally:
                os.close(handle)

    def journal(self, model: str, tier: str, task: str, sample: int) -> Path:
        return self.path / JOURNALS / _slug(model) / f"{task}-{tier}-{sample}.jsonl"

    def __enter__(self) -> RunFolder:
        self._lock = FileLock(self.path / ".lock")
        try:
            with _kept(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UserMistake(f"the run in {self.path} is being written by another process; wait for it") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def merge(parts: Sequence[Path], out: Path) -> RunFolder:
    """One run from parts of it made on several machines.

    Raises UserMistake where the parts were asked different things, or disagree about a sample.
    """
    folders = [RunFolder(p) for p in parts]
    specs = [f.spec() for f in folders]
    if not specs:
        raise UserMistake("there is nothing to merge; name the folders of the parts")
    together = specs[0].model_copy(update={"shard": "1/1"})
    for folder, spec in zip(folders, specs, strict=True):
        for field in RunSpec.model_fields:
            if field not in ("shard", "set") and getattr(spec, field) != getattr(together, field):
                raise UserMistake(
                    f"{folders[0].path} and {folder.path} are not parts of one run: {field} is "
                    f"{getattr(together, field)!r} in one and {getattr(spec, field)!r} in the other"
                )
    rows: dict[Key, Row] = {}
    for folder in folders:
        for row in folder.rows():
            if rows.setdefault(row.key, row) != row:
                model, tier, task, sample = row.key
                raise UserMistake(
                    f"two parts disagree about sample {sample} of {task} ({tier}) by {model}: it was run twice; leave "
                    f"one of them out, such as {folder.path}"
                )
    target = RunFolder(out)
    with target:
        target.open(together)
        for folder in folders:
            if (folder.path / JOURNALS).is_dir():
                shutil.copytree(
                    folder.path / JOURNALS, out / JOURNALS, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.lock")
                )
        there = {row.key for row in target.rows()}
        for key in sorted(rows.keys() - there):
            target.add(rows[key])
    return target


def _in_words(value: object) -> str:
    if isinstance(value, tuple | dict):
        return ", ".join(f"{v} {value[v]}" if isinstance(value, dict) else str(v) for v in value) or "none"
    return "none named" if value is None else str(value)


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """Around what is written to a run's folder: a disk that takes nothing is one sentence."""
    try:
        yield
    except OSError as error:
        again = ", then give the same command again"
        raise cannot_write(f"the run's folder {folder}", error, "name another one with --out", again) from None


def _whole(handle: int) -> int:
    """Where the last whole line ends."""
    size = os.fstat(handle).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        position = os.pread(handle, end - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0


def _slug(model: str) -> str:
    """A folder's name for a model: readable, and different for different names."""
    word = re.sub(r"[^A-Za-z0-9_.-]+", "-", model).strip("-.")[:60] or "model"
    return word if word == model else f"{word}-{hashlib.sha256(model.encode()).hexdigest()[:6]}"
