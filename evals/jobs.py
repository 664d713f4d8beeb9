"""Which samples a run is made of, in what order, and which of them a shard holds.

Tasks come in an order in which every beginning is a fair sample of the set: each level has its share of it, and within
a level chance decides, the same for all.  Each task is asked of all contestants before the next begins, and a shard
holds whole tasks, so that what a run has when it is stopped can be compared, and equal kernels meet in one place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..agent.errors import UserMistake
from .evalset import Entry, EvalSet, LoadedSet
from .hand_written import NAME as HAND_WRITTEN
from .hand_written import source_for
from .rows import Key
from .run_folder import RunSpec

if TYPE_CHECKING:
    from ..tasks import Task

TRACER, SEARCH = "builtin:tracer", "builtin:search"
BASELINES = (HAND_WRITTEN, TRACER, SEARCH)
"""In every run beside the models asked for, once a task: they always answer the same.  The search has the attempts of a
model; the others answer once.  Those that translate references have no answer to a program: it counts as unsolved."""


@dataclass(frozen=True)
class Job:
    """One sample to make."""

    model: str
    tier: str
    task: Task
    entry: Entry
    where: str
    sample: int

    @property
    def key(self) -> Key:
        return (self.model, self.tier, self.entry.name, self.sample)

    def __str__(self) -> str:
        return f"{self.model} on {self.entry.name} #{self.sample}" + (
            f" ({self.tier})" if self.tier != "closed" else ""
        )


def jobs(spec: RunSpec, loaded: LoadedSet) -> list[Job]:
    """Every sample of the run, or of this shard: first samples of all tasks first, a task of all models at a time."""
    return [
        Job(model, tier, loaded.tasks[entry.name], entry, loaded.where[entry.name], sample)
        for entry, model, tier, sample in _samples(spec, loaded.spec)
    ]


def keys(spec: RunSpec, eval_set: EvalSet) -> list[Key]:
    """The same by name, without loading a task."""
    return [(model, tier, entry.name, sample) for entry, model, tier, sample in _samples(spec, eval_set)]


def _samples(spec: RunSpec, eval_set: EvalSet) -> Iterator[tuple[Entry, str, str, int]]:
    part, parts = part_of(spec.shard)
    chosen = in_order([e for e in eval_set.tasks if spec.tasks is None or e.name in spec.tasks])
    by_level = sorted(chosen, key=lambda e: e.level)  # so dealt, every part has as many tasks of each level
    mine = {e.name for e in by_level[part - 1 :: parts]}
    for sample in range(1, spec.samples + 1):
        for entry in chosen:
            for tier in spec.tiers if entry.name in mine else ():
                for model in (*BASELINES, *spec.models):
                    if model not in BASELINES or (sample == 1 and applies(model, entry, tier)):
                        yield entry, model, tier, sample


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    """The tasks of a set, so that of any beginning each level makes up about its share."""
    levels: dict[int, list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: hashlib.sha256(e.name.encode()).digest()):
        levels.setdefault(entry.level, []).append(entry)
    placed = [((i + 0.5) / len(found), e) for found in levels.values() for i, e in enumerate(found)]
    return [entry for _, entry in sorted(placed, key=lambda p: (p[0], p[1].level))]


def applies(model: str, entry: Entry, tier: str) -> bool:
    """Whether a baseline writes in this tier: epilogues by hand where there is one, translations in the closed one."""
    return source_for(entry.name, tier) is not None if model == HAND_WRITTEN else tier == "closed"


def part_of(shard: str) -> tuple[int, int]:
    """2 and 4 of "2/4". Raises UserMistake."""
    part, slash, parts = shard.partition("/")
    if slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts):
        return int(part), int(parts)
    raise UserMistake(f"--shard {shard!r} is no part of a run; write it as 2/4, the second of four parts")
