"""A run made small enough to be kept beside the code: its parts joined, its journals in one compressed archive.

run.json  results.json  results.jsonl  report.html  journals.tar.xz
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..agent.errors import UserMistake
from .archive import ARCHIVE, pack
from .results import PAGE, RESULTS, Results, write_results
from .run_folder import ROWS, SPEC, RunFolder, merge

PUBLISHED = (SPEC, ROWS, RESULTS, PAGE, ARCHIVE)


def publish(parts: Sequence[Path], out: Path) -> Results:
    """Join the parts of a run and write what is to be kept of it into a folder, `out`, replacing what was published
    there before.

    Raises UserMistake where the parts are not of one run, or the folder holds something else.
    """
    out = Path(out)
    if out.exists() and any(p.name not in PUBLISHED for p in out.iterdir()):
        other = next(p.name for p in out.iterdir() if p.name not in PUBLISHED)
        raise UserMistake(f"the folder {out} holds {other!r}, which is no published result; name a new one with --out")
    with tempfile.TemporaryDirectory() as scratch:
        whole = merge(parts, Path(scratch) / "whole")
        out.mkdir(parents=True, exist_ok=True)
        packed = pack(whole.path)
        for name, data in {**{n: (whole.path / n).read_bytes() for n in (SPEC, ROWS)}, ARCHIVE: packed}.items():
            (out / name).write_bytes(data)
    return write_results(RunFolder(out))
