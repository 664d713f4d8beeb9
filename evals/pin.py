"""Pin the public set again after the catalogue has changed: `python -m codasmith.evals.pin`.

Digests and levels come from the catalogue; families and notes of published solutions are kept as they were
written.  A new task must be given both by hand. Scores from before and after are not comparable: raise the version
in name and number once results of a version have been published.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..tasks.load import shipped
from .evalset import PUBLIC, Entry, read_set


def pin(path: Path) -> list[str]:
    """Rewrite the set's file; return the names of tasks that have no family yet."""
    spec, _ = read_set(path)
    before = {t.name: t for t in spec.tasks}
    entries, new = [], []
    for name, task in shipped().items():
        old = before.get(name)
        if old is None:
            new.append(name)
        entries.append(
            Entry(
                name=name,
                digest=task.digest,
                level=task.level,
                family=old.family if old else "unsorted",
                known=old.known if old else None,
            )
        )
    pinned = spec.model_copy(update={"tasks": tuple(entries)})
    path.write_text(pinned.model_dump_json(indent=1, exclude_none=True) + "\n", encoding="utf-8")
    return new


if __name__ == "__main__":
    target = Path(__file__).parent / "sets" / f"{PUBLIC}.json"
    unsorted = pin(target)
    print(f"{target}: {len(shipped())} tasks pinned")
    if unsorted:
        sys.exit(f"give a family (and the published solution, if any) to: {', '.join(unsorted)}")
