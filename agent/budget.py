"""Budgets: how much a run may spend on attempts, tokens, dollars and time, and which of them ended it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from .errors import UserMistake

MAX_ANSWER_TOKENS = 16_384
"""What one answer may cost at most; an epilogue is far shorter, and a model may think before it."""


@dataclass(frozen=True)
class Spent:
    """What a run has used so far."""

    attempts: int = 0
    tokens: int = 0
    """Input and output together."""
    cached: int = 0
    """Those that were read from the provider's cache."""
    output: int = 0
    """Those that the model wrote."""
    dollars: float = 0.0
    unpriced: bool = False
    """Whether some answer came without a price, so that `dollars` is too low."""
    uncounted: bool = False
    """Whether some answer came without its tokens, so that `tokens` is too low."""
    broken: int = 0
    """Answers that broke off, of which no provider says what they cost: in no sum."""
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    """In the gate's stages that hold the GPU."""
    admitted: int = 0
    """Kernels that the registry kept."""

    def __str__(self) -> str:
        """Such as "2 attempts, 480 tokens (100 cached, 40 written), $0.0400, 45.0 s, 6.2 s of them on the GPU"."""
        tokens = f"{self.tokens:,} tokens"
        if self.output:
            tokens += f" ({self.cached:,} cached, {self.output:,} written)"
        if self.uncounted:
            tokens = "tokens not reported"
        dollars = f"${self.dollars:.4f}" + " and more (some answers have no price)" * self.unpriced
        if self.unpriced and not self.dollars:
            dollars = "price not known"
        text = f"{self.attempts} attempt{'s' * (self.attempts != 1)}, {tokens}, {dollars}, {self.seconds:.1f} s"
        if self.gpu_seconds:
            text += f", {self.gpu_seconds:.1f} s of them on the GPU"
        if self.admitted > 1:
            dollars = "" if self.unpriced else f"${self.dollars / self.admitted:.4f} and "
            each = f"{dollars}{self.gpu_seconds / self.admitted:.1f} s of GPU each"
            text += f"; {self.admitted} kernels admitted, {each}"
        if self.broken:
            text += (
                f"; not in it {self.broken} answer{'s' * (self.broken != 1)} that broke off: what one costs is not said"
            )
        return text


@dataclass(frozen=True)
class Budget:
    """Upper bounds; None is no bound. Checked before each question, so the last answer may overshoot."""

    attempts: int | None = 8
    tokens: int | None = None
    dollars: float | None = None
    minutes: float | None = None
    gpu_seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                option = f"--{field.name.replace('_', '-')}"
                raise UserMistake(f"{option} {value:g} leaves nothing to spend; give a number above 0, or leave it out")

    def ended_by(self, spent: Spent) -> str | None:
        """Which bound is reached: "attempts", "tokens", "dollars", "minutes" or "gpu_seconds"; None while
        all have some left.

        "uncounted" or "unpriced" where the model does not say how many tokens or dollars it takes, so that
        the bound on them cannot be kept.
        """
        if self.attempts is not None and spent.attempts >= self.attempts:
            return "attempts"
        if self.tokens is not None and spent.tokens >= self.tokens:
            return "tokens"
        if self.dollars is not None and spent.dollars >= self.dollars:
            return "dollars"
        if self.out_of_time(spent):
            return "minutes"
        if self.gpu_seconds is not None and spent.gpu_seconds >= self.gpu_seconds:
            return "gpu_seconds"
        if self.tokens is not None and spent.uncounted:
            return "uncounted"
        if self.dollars is not None and spent.unpriced:
            return "unpriced"
        return None

    def out_of_time(self, spent: Spent) -> bool:
        return self.minutes is not None and spent.seconds >= 60 * self.minutes

    def answer_tokens(self, spent: Spent) -> int:
        """How long the next answer may be."""
        if self.tokens is None:
            return MAX_ANSWER_TOKENS
        return max(1, min(MAX_ANSWER_TOKENS, self.tokens - spent.tokens))

    def with_changes(self, **changes: float | None) -> Budget:
        """The same with those bounds replaced that are given (not None)."""
        given: dict[str, Any] = {name: bound for name, bound in changes.items() if bound is not None}
        return replace(self, **given)

    def left(self, spent: Spent) -> str:
        """What is left, in words: "3 attempts, 12,000 tokens"."""
        parts = []
        if self.attempts is not None:
            n = max(0, self.attempts - spent.attempts)
            parts.append(f"{n} attempt" + "s" * (n != 1))
        if self.tokens is not None:
            parts.append(f"{max(0, self.tokens - spent.tokens):,} tokens")
        if self.dollars is not None:
            parts.append(f"${max(0.0, self.dollars - spent.dollars):.2f}")
        if self.minutes is not None:
            parts.append(f"{max(0.0, self.minutes - spent.seconds / 60):.1f} minutes")
        if self.gpu_seconds is not None:
            parts.append(f"{max(0.0, self.gpu_seconds - spent.gpu_seconds):.1f} s of GPU")
        return ", ".join(parts) or "no bound"
