"""When a run has what it was begun for, or is not getting any better: targets and patience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import UserMistake

if TYPE_CHECKING:
    from ..gate.verdict import Verdict
    from .history import History
    from .strategies import Strategy


@dataclass(frozen=True)
class Stops:
    """None is no stop. Without any, the strategy says whether the first candidate that passes is good enough."""

    tax: float | None = None
    """Good enough when the tax is at most this."""
    speedup: float | None = None
    """Good enough when the speed-up over the faster of eager torch and torch.compile is at least this."""
    patience: int | None = None
    """Over when the best attempt is older than this many attempts."""

    def __post_init__(self) -> None:
        for option, value in (("target-tax", self.tax), ("target-speedup", self.speedup)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UserMistake(f"--{option} {value:g} can never be reached; give a number above 0, or leave it out")
        if self.patience is not None and self.patience < 1:
            raise UserMistake(
                f"--patience {self.patience} would end the run before it begins; give 1 or more, or leave it out"
            )

    def ended_by(self, history: History, strategy: Strategy) -> str:
        """ "good-enough" or "patience"; "" while the run should go on."""
        best = history.best
        if best is None or best.verdict is None:
            return ""
        passed = [a.verdict for a in history.judged if a.verdict is not None and a.verdict.ok]
        if any(self._good_enough(verdict, strategy) for verdict in passed):
            return "good-enough"
        waited = sum(a.number > best.number for a in history.judged)
        return "patience" if self.patience is not None and waited >= self.patience else ""

    def _good_enough(self, verdict: Verdict, strategy: Strategy) -> bool:
        if verdict.tax is None:  # nothing was measured, so nothing can be bettered
            return True
        if self.tax is None and self.speedup is None:
            return strategy.settles and self.patience is None
        reached = speedup(verdict)
        return (self.tax is None or verdict.tax <= self.tax) and (
            self.speedup is None or (reached is not None and reached >= self.speedup)
        )

    @property
    def target(self) -> str | None:
        """The targets as the model reads them, after "the target is"."""
        parts = [f"{self.tax:.3f}"] if self.tax is not None else []
        if self.speedup is not None:
            parts.append(f"a speed-up of {self.speedup:.3f} over the faster of eager torch and torch.compile")
        return ", and ".join(parts) or None


def speedup(verdict: Verdict) -> float | None:
    """Geometric-mean speed-up over the faster baseline that was timed; None without one."""
    timed = [verdict.timing[key] for key in ("over_eager", "over_compile") if verdict.timing.get(key)]
    return min(timed, default=None)
