"""The journals of a run in one compressed archive, and reading them from there.

Questions of one task are nearly equal, so the archive takes a small part of what it holds.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path

from ..agent.journal import Event, read
from .run_folder import JOURNALS

ARCHIVE = f"{JOURNALS}.tar.xz"


def pack(folder: Path) -> bytes:
    """The journals of a run as a .tar.xz that depends on nothing but their content."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for path in sorted((folder / JOURNALS).rglob("*.jsonl"), key=lambda p: (p.name, p)):
            if path.name.startswith("."):
                continue
            info = tarfile.TarInfo(path.relative_to(folder).as_posix())
            data = path.read_bytes()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return lzma.compress(tar.getvalue(), preset=6)


def events_of(folder: Path, journal: str) -> list[Event]:
    """The events of a run's journal, from its file or from the archive; none where there is neither."""
    if (folder / journal).is_file():
        return read(folder / journal)[0]
    archive = folder / ARCHIVE
    if not archive.is_file():
        return []
    data = _unpacked(archive, archive.stat().st_mtime_ns).get(journal)
    if data is None:
        return []
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        return read(Path(file.name))[0]


@lru_cache(1)
def _unpacked(archive: Path, changed: int) -> dict[str, bytes]:
    with tarfile.open(archive, "r:xz") as tar:
        return {m.name: file.read() for m in tar if (file := tar.extractfile(m)) is not None}
