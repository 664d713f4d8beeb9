"""JSON lines that are appended as results come, by processes that may be killed at any moment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..agent.errors import UserMistake

Line = dict[str, Any]


def append(file: Path, line: Line) -> None:
    """Add a line; one before it that was cut short stays by itself."""
    cut_short = file.exists() and file.read_bytes()[-1:] not in (b"", b"\n")
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n" * cut_short + json.dumps(line) + "\n")


def read(files: Iterable[Path], what: str) -> Iterator[Line]:
    """The lines of the files in order; what was cut short is passed over.

    what: what they hold the results of, in words. Raises UserMistake for a file that cannot be read.
    """
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserMistake(f"{file} cannot be read as results of {what} ({error})") from None
        for line in text.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
