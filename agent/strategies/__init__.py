"""Strategies: which earlier attempts the next question builds on, one short file each.

| name | the next question shows | ends by itself |
|---|---|---|
| refine | the best attempt and the newest | at the first that passes, unless a target or patience asks for more |
| best-of-n | none: every answer is an independent sample | after `width` samples, where a width is given |
| best-first | the verified candidate most worth expanding, and what last came of it | never |

A strategy computes its choice from the history, which is computed from the journal; it holds no state, so that a run
that was killed goes on as if it had not been.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Protocol

from ..errors import UserMistake
from .best_first import BestFirst
from .best_of_n import BestOfN
from .refine import Refine

if TYPE_CHECKING:
    from ..history import Attempt, History

__all__ = ["NAMES", "BestFirst", "BestOfN", "Refine", "Strategy", "make_strategy"]

NAMES = ("refine", "best-of-n", "best-first")


class Strategy(Protocol):
    """What the loop asks before each question."""

    @property
    def name(self) -> str: ...

    @property
    def settles(self) -> bool:
        """Whether the first candidate that passes ends the run where neither a target nor patience is given."""
        ...

    @property
    def repeats(self) -> int | None:
        """How many answers in a row that were given before end the run; None where that is no reason."""
        ...

    def shown(self, history: History) -> list[Attempt]:
        """The attempts that the next question tells of, in their order; the last one is told of at most length."""
        ...

    @property
    def at_once(self) -> int:
        """How many questions may be out at the same time."""
        ...

    def left(self, history: History) -> float:
        """How many questions it still sets out to ask; infinite where only stops and budgets end it."""
        ...


def make_strategy(name: str, width: int | None = None) -> Strategy:
    """A strategy by its name. Raises UserMistake for a name or width that it does not take."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(NAMES)}"
        raise UserMistake(f"unknown strategy {name!r}; {hint}")
    if width is not None and width < 1:
        raise UserMistake(f"--width {width} leaves no candidate to work on; give 1 or more, or leave it out")
    if name == "best-of-n":
        return BestOfN(width)
    if name == "best-first":
        return BestFirst() if width is None else BestFirst(width)
    if width is not None:
        raise UserMistake("--width is for best-of-n and best-first; refine works on one candidate, so leave it out")
    return Refine()
