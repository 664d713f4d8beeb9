"""Best first: expand the fastest verified candidates in turn, as many of them as the width says.

The candidate with the fewest expansions among the `width` fastest comes next, the faster one first; the question
shows it with what last came of it, so that a failed change of it can be mended. Until one candidate is verified
there is nothing to expand, and the question is that of `refine`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .refine import Refine

if TYPE_CHECKING:
    from ..history import Attempt, History


@dataclass(frozen=True)
class BestFirst:
    width: int = 3
    name: ClassVar[str] = "best-first"
    settles: ClassVar[bool] = False
    at_once: ClassVar[int] = 1

    @property
    def repeats(self) -> int | None:
        """A repeat counts as an expansion, so the next question is about another candidate: each gets its chance."""
        return self.width + 1

    def shown(self, history: History) -> list[Attempt]:
        verified = [a for a in history.judged if a.repeats is None and a.verdict is not None and a.verdict.ok]
        frontier = sorted(verified, key=lambda a: a.rank, reverse=True)[: self.width]
        if not frontier:
            return Refine().shown(history)
        expansions = {a.number: [b for b in history.judged if b.shown[:1] == (a.number,)] for a in frontier}
        chosen = min(frontier, key=lambda a: len(expansions[a.number]))
        return [chosen, *expansions[chosen.number][-1:]]

    def left(self, history: History) -> float:
        return math.inf
