"""Best of n: independent samples of the same question, of which the best counts."""

from __future__ import annotations

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
    repeats: ClassVar[int | None] = None
    """Short answers are often drawn twice, and the next may differ."""

    def shown(self, history: History) -> list[Attempt]:
        return []

    def done(self, history: History) -> bool:
        return self.width is not None and len(history.attempts) >= self.width
