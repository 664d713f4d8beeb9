"""Which rows of a run that is not finished are scored: those of task and sample that every contestant has.

A run that was stopped lacks the samples that take long sooner than others, so a contestant's rows alone would flatter
it.  What one lacks is therefore left out for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .evalset import EvalSet
from .jobs import keys
from .rows import Key, Row
from .run_folder import RunSpec


@dataclass(frozen=True)
class Complete:
    """What of a run is there."""

    rows: tuple[Row, ...]
    """Those that are scored."""
    missing: tuple[Key, ...]
    """What was asked and is not there."""
    unscored: tuple[str, ...]
    """Tasks of which no row is scored."""
    asked: Counter
    """Samples asked, by model and tier."""

    @property
    def notes(self) -> list[str]:
        """What a reader must know of it; nothing where nothing is missing."""
        if not self.missing:
            return []
        lacks = Counter((model, tier) for model, tier, _, _ in self.missing)
        found = [
            f"The run is not finished: {len(self.missing):,} of {self.asked.total():,} samples were not made. Only "
            f"tasks and samples that every contestant has are scored: {len({r.task for r in self.rows})} tasks."
        ]
        if self.unscored:
            found.append(f"Not scored, {len(self.unscored)} tasks: {', '.join(self.unscored)}.")
        for (model, tier), count in sorted(lacks.items()):
            asked = self.asked[model, tier]
            none = "; it is not scored" if count == asked else ""
            found.append(f"{model} ({tier}): {asked - count} of {asked} samples are there{none}.")
        return found


def complete(spec: RunSpec, eval_set: EvalSet, rows: Sequence[Row]) -> Complete:
    """Sort out a run's rows. A contestant without any row is none, and the others are scored without it."""
    asked = keys(spec, eval_set)
    there = {row.key for row in rows}
    present = {(row.model, row.tier) for row in rows}
    missing = [key for key in asked if key not in there]
    lacking = {(task, sample) for model, tier, task, sample in missing if (model, tier) in present}
    scored = tuple(row for row in rows if (row.task, row.sample) not in lacking)
    unscored = dict.fromkeys(task for _, _, task, _ in asked)
    for row in scored:
        unscored.pop(row.task, None)
    return Complete(scored, tuple(missing), tuple(unscored), Counter((model, tier) for model, tier, _, _ in asked))
