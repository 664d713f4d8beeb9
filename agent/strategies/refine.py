"""Refine: show the best attempt and the newest, and ask for a better one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..history import Attempt, History


@dataclass(frozen=True)
class Refine:
    name: ClassVar[str] = "refine"
    settles: ClassVar[bool] = True
    repeats: ClassVar[int | None] = 2
    at_once: ClassVar[int] = 1

    def shown(self, history: History) -> list[Attempt]:
        best, newest = history.best, history.newest
        if best is None or newest is None:
            return []
        return [newest] if best.number in (newest.number, newest.repeats) else [best, newest]

    def left(self, history: History) -> float:
        return math.inf
