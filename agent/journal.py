"""The journal: an append-only file of events, one JSON object a line, that a kill cannot lose.

Each event carries a sequence number `n`, a `time` and its name, `event`; it is on the disk (fsync) before the run
goes on.  A line that was cut short or damaged is reported by its number and left out; the others count.
Values of environment variables that hold keys are replaced before anything is written.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import MachineCannot, UserMistake, cannot_write

Event = dict[str, Any]

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)
_SHORTEST_SECRET = 8
"""Shorter values ("EMPTY", as local servers want it) are no secrets, and would be blanked inside ordinary words."""


class Journal:
    """One run's events, and the one file handle that adds to them. Use as a context manager."""

    def __init__(self, path: Path):
        """Open or create. Raises UserMistake or MachineCannot, in one sentence, where that cannot be."""
        self.path = Path(path)
        self._lock = FileLock(self.path.parent / f".{self.path.name}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            if not Path(self._lock.lock_file).exists():  # as where no file can be made at all
                missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                raise _cannot_write(self.path, missing) from None
            raise UserMistake(
                f"the journal {self.path} is being written by another process; wait for that run"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise _cannot_write(self.path, error) from None
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self.events, self.problems = read(self.path)
        except OSError as error:
            self._lock.release()
            raise _cannot_write(self.path, error) from None
        except UserMistake:
            self.close()
            raise
        self._next = max((event["n"] for event in self.events), default=0) + 1
        self._keys = {_key_variable(event) for event in self.events}

    def _unfinished_line(self) -> bool:
        """Whether a kill cut the last line short; it then stays a line of its own."""
        size = os.fstat(self._file).st_size
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def write(self, name: str, **data: Any) -> Event:
        """Add one event and return it as it was written; it is on the disk when this returns."""
        event = {"n": self._next, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **data}
        self._keys.add(_key_variable(event))
        event = _redact(event, _secrets(self._keys))
        line = json.dumps(event, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"
        try:
            if self._unfinished_line():
                line = b"\n" + line
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:
            raise _cannot_write(self.path, error) from None
        self._next += 1
        self.events.append(event)
        return event

    def close(self) -> None:
        os.close(self._file)
        self._lock.release()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path) -> tuple[list[Event], list[str]]:
    """The events of a journal, and one sentence for each line that is none."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise UserMistake(f"the journal {path} cannot be read ({error.strerror}); check the path") from None
    events: list[Event] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            if not isinstance(event["event"], str) or not isinstance(event["n"], int):
                raise TypeError
            if datetime.fromisoformat(event["time"]).tzinfo is None:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(f"line {number} of {path} is damaged or was cut short; it is left out")
            continue
        events.append(event)
    return events, problems


def seconds_active(events: Iterable[Event]) -> float:
    """Wall time between events, without the pauses before a "resumed" event."""
    total, previous = 0.0, None
    for event in events:
        now = datetime.fromisoformat(event["time"])
        if previous is not None and event["event"] != "resumed":
            total += max(0.0, (now - previous).total_seconds())
        previous = now
    return total


def _key_variable(event: Event) -> str:
    """The variable that a run's model has its key from, where the run names one; "" where it does not."""
    options = event.get("model_options")
    return str(options.get("key_env") or "") if isinstance(options, dict) else ""


def _secrets(named: set[str]) -> dict[str, str]:
    """What is written in the place of each secret. named: variables that hold one, whatever they are called."""
    return {
        value: f"[{name}]"
        for name, value in os.environ.items()
        if (name in named or _SECRET_NAME.search(name)) and len(value) >= _SHORTEST_SECRET
    }


def _redact(value: Any, secrets: dict[str, str]) -> Any:
    if isinstance(value, str):
        for secret, name in secrets.items():
            value = value.replace(secret, name)
        return value
    if isinstance(value, dict):
        return {k: _redact(v, secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(v, secrets) for v in value]
    return value


def _cannot_write(path: Path, error: Exception) -> UserMistake | MachineCannot:
    elsewhere, then = "choose another place with --journal", f", then go on with: codasmith resume {path}"
    return cannot_write(f"the journal {path}", error, elsewhere, then)
