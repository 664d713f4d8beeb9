"""Best of n: independent samples of the same question, several asked for at once, of which the best counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..history import Attempt, History


@dataclass(frozen=True)
class BestOfN:
    width: int | None = None
    """How many samples; None for as many as the budget allows."""
    name: ClassVar[str] = "best-of-n"
    settles: ClassVar[bool] = False
    at_once: ClassVar[int] = 4
    """More would meet the rate limits of most accounts."""
    repeats: ClassVar[int | None] = None
    """Short answers are often drawn twice, and the next may differ."""

    def shown(self, history: History) -> list[Attempt]:
        return []

    def left(self, history: History) -> float:
        return math.inf if self.width is None else self.width - len(history.attempts)
