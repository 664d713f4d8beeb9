"""An eval set: tasks at pinned digests, with what a reader must know of each. One JSON file, versioned.

The public set is the catalogue; a held-out set is a folder of generated task files with its own JSON beside them.
A task whose digest moved is another problem: the set then does not load, so that old and new scores never mix.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..agent.errors import UserMistake

if TYPE_CHECKING:
    from ..tasks import Task

PUBLIC = "coda-epilogue-v1"
MANIFEST = "set.json"


class Known(BaseModel):
    """Where a solution of a task has been published, so that a model may have read it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: str
    """A name in quack's library, such as "quack.epilogue.library.rope_epi"."""
    how: Literal["same", "near"]
    """"same": the expression of the task, up to names. "near": all but a term, a constant or an activation."""


class Entry(BaseModel):
    """One task of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    digest: str
    level: int
    family: str
    """What kind of fusion: "pointwise", "gated", "rotary", "loss", "statistics", "layer", "backward", "generated"."""
    file: str | None = None
    """The task's file, relative to the set's JSON; None for a task of the catalogue."""
    known: Known | None = None


class EvalSet(BaseModel):
    """Which tasks, at which digests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: int
    split: Literal["public", "held-out"]
    note: str = ""
    made_with: dict[str, int] | None = None
    """The seed, count and difficulty of a generated set."""
    tasks: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """sha256 over the tasks' names and digests."""
        return hashlib.sha256(json.dumps(sorted([t.name, t.digest] for t in self.tasks)).encode()).hexdigest()


@dataclass(frozen=True)
class LoadedSet:
    """A set, and its tasks ready to run."""

    spec: EvalSet
    tasks: dict[str, Task]
    where: dict[str, str]
    """What finds each task again: its name, or its file with its name."""


def load_set(name_or_path: str | Path = PUBLIC) -> LoadedSet:
    """Load a set by name, or from a folder that `codasmith evals generate` wrote.

    Raises UserMistake, in one sentence, for a set that is not known or a task that has moved.
    """
    from ..tasks import TaskError, load_task
    from ..tasks.load import shipped

    spec, folder = read_set(name_or_path)
    tasks, where = {}, {}
    for entry in spec.tasks:
        found = f"{folder / entry.file}:{entry.name}" if folder and entry.file else entry.name
        try:
            task = load_task(found) if entry.file else shipped().get(entry.name)
        except TaskError as error:
            raise UserMistake(f"the set {spec.name!r} cannot be used: {error}") from None
        if task is None:
            raise UserMistake(
                f"the set {spec.name!r} names the task {entry.name!r}, which the catalogue does not have; use the "
                "version of codasmith that the set was pinned with"
            )
        if task.digest != entry.digest:
            raise UserMistake(
                f"the task {entry.name!r} has changed since the set {spec.name!r} was pinned (digest "
                f"{task.digest[:12]}, pinned {entry.digest[:12]}), so scores would not be comparable; restore the "
                "task, or pin a new version"
            )
        tasks[entry.name], where[entry.name] = task, found
    return LoadedSet(spec, tasks, where)


def read_set(name_or_path: str | Path = PUBLIC) -> tuple[EvalSet, Path | None]:
    """The JSON of a set and the folder it lies in (None for one that ships), without loading its tasks."""
    path = Path(name_or_path)
    if path.is_dir():
        path = path / MANIFEST
    if path.is_file():
        return _parse(path.read_text(encoding="utf-8"), str(path)), path.resolve().parent
    shipped = resources.files(__package__).joinpath("sets", f"{name_or_path}.json")
    if not shipped.is_file():
        names = ", ".join(set_names())
        raise UserMistake(
            f"there is no eval set {str(name_or_path)!r}; name one ({names}) or a folder with a {MANIFEST} in it"
        )
    return _parse(shipped.read_text(encoding="utf-8"), str(name_or_path)), None


def set_names() -> list[str]:
    """The sets that ship."""
    return sorted(f.name.removesuffix(".json") for f in resources.files(__package__).joinpath("sets").iterdir())


def _parse(text: str, where: str) -> EvalSet:
    try:
        return EvalSet.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise UserMistake(f"{where} is not an eval set: {field}: {first['msg'].lower()}; generate it again") from None
