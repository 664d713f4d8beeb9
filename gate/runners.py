"""The referee's runner, another one ready to take its place, and what both are held to.

A runner that crashed, hung or served an open candidate is replaced.  The next has imported all it needs and waits, with
no GPU yet, so that replacing takes what starting CUDA takes.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from ..templates import sandbox
from ..templates.sandbox import InForce
from . import contain
from .arena import Arena
from .pipe import Child, ChildFailed
from .verdict import StageResult

LIMIT_S = 40.0
"""For one command, where compiling a row kernel is among them, or starting CUDA."""
AWAKE_S = 0.05
"""As long as several turns of a timing; of what lasts longer, waking up is no share."""
LAUNCH_S = 10.0
"""For one command where none is: a kernel that has not ended by then never will."""


class Runners:
    """`begin` has one attached to the arena for a job, `current` is it, `drop` ends it."""

    def __init__(self, arena: Arena):
        self.arena = arena
        self.held: InForce = {}
        self._current: Child | None = None
        self._next: Child | None = None
        self._folder: Path | None = None
        self._way: contain.Way | None = None
        """The strictest way in which a runner has started here."""
        atexit.register(self.close)

    def begin(self, *, hostile: bool) -> None:
        """Have a runner for a job; hostile: isolated further, before an object of the open tier is loaded."""
        if self._current is None or not self._current.alive:
            self.drop()
            self._current = self._start()
            self._next = _spawn()
        if hostile:
            self.held = self._current.call("alone")["held"]

    @property
    def current(self) -> Child:
        """The job's runner. Raises ChildFailed where it has ended: no other takes its place within a job, for that one
        would not be isolated."""
        if self._current is None or not self._current.alive:
            raise ChildFailed("the process has ended", "crash")
        return self._current

    def stage(self, key: str, path: str) -> str:
        """Lay an object where the runner can read it, and nobody else's beside it; returns its path.

        key: its symbol, which names its content.  What lies there already is mapped into the runner and stays.
        """
        assert self._folder is not None
        target = contain.folders(self._folder)[0] / f"{key}.so"
        if not target.exists():
            part = target.with_suffix(".part")
            shutil.copyfile(path, part)
            part.replace(target)
        return str(target)

    def noted(self, stage: StageResult) -> StageResult:
        """The stage's result with what the runner was held to, and a warning where that is less than asked."""
        data = {**stage.data, "runner": self.held}
        missing = contain.lacking(self.held)
        note = stage.note
        if missing:
            data["warning"] = f"ran with less isolation than asked: {'; '.join(missing)}"
            note = "; ".join(
                filter(None, [note, f"the runner lacks {', '.join(m.partition(' (')[0] for m in missing)}"])
            )
        return stage.model_copy(update={"data": data, "note": note})

    def drop(self) -> None:
        """End the runner, and remove its folder."""
        child, self._current = self._current, None
        if child is not None:
            child.kill()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        self.drop()
        if self._next is not None:
            self._next.kill()

    def _start(self) -> Child:
        # A driver may not start with the file system taken; a way that has worked is never given up for a weaker one.
        ways: tuple[contain.Way, ...] = (self._way, self._way) if self._way else ("whole", *contain.WAYS)
        asked = os.environ.get("CODASMITH_RUNNER", "")
        if asked in contain.WAYS:
            ways = (contain.WAYS[contain.WAYS.index(asked)],) * 2
        for number, way in enumerate(ways, 1):
            child, self._next = self._next or _spawn(), None
            self._folder = Path(tempfile.mkdtemp(prefix="codasmith-runner-"))
            try:
                child.ready()
                handle, size = self.arena.handle(), self.arena.block.numel()
                self.held = child.call("attach", handle=handle, size=size, folder=str(self._folder), way=way)["held"]
            except ChildFailed:
                child.kill()
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
                if number == len(ways):
                    raise
            else:
                self._way = way
                return child
        raise AssertionError("there is a last way")


MODULE = "codasmith.gate.runner"


def _spawn() -> Child:
    return Child(MODULE, environment=_environment(), wait=False, limit_s=LIMIT_S, awake_s=AWAKE_S)


def _environment() -> dict[str, str]:
    """A short list: whatever key the coordinator has, the process that loads candidates' objects has not."""
    driver = {k: v for k, v in os.environ.items() if k.startswith(("CUDA_", "NVIDIA_", "PYTORCH_"))}
    return {**sandbox.environment(), **driver}
