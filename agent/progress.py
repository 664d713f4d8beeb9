"""Progress for the person who waits: a moving line on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.status import Status

if TYPE_CHECKING:
    from .budget import Budget, Spent
    from .history import Attempt


class Progress:
    """Says what is going on. On a terminal the current step is one moving line."""

    def __init__(self, console: Console):
        self.console = console
        self._status: Status | None = None

    @staticmethod
    def silent() -> Progress:
        return Progress(Console(quiet=True))

    def say(self, text: str, style: str = "") -> None:
        """One line that stays."""
        self.console.print(escape(text), style=style, highlight=False, soft_wrap=True)

    @contextmanager
    def asking(self, numbers: Sequence[int], budget: Budget, spent: Spent) -> Iterator[Callable[[str], None]]:
        """While the model answers; yields what takes its text as it arrives."""
        which = f"attempt {numbers[0]}" if len(numbers) == 1 else f"attempts {numbers[0]} to {numbers[-1]}, at once"
        self.say(f"{which}: asking (left: {budget.left(spent)})")
        count = 0

        def on_text(text: str) -> None:
            nonlocal count
            count += len(text)
            self._show(f"the model has written {count:,} characters")

        with self.moving("waiting for the model"):
            yield on_text
        if count:
            self.say(f"{which}: answered, {count:,} characters")

    @contextmanager
    def moving(self, text: str) -> Iterator[None]:
        """A step of unknown length."""
        if not self.console.is_terminal or self._status is not None:
            yield
            return
        with self.console.status(escape(text)) as self._status:
            try:
                yield
            finally:
                self._status = None

    def stage(self, stage: str, line: str) -> None:
        """The gate's callback."""
        if self.console.is_terminal:
            self._show(f"{stage}: {line}")
        else:
            self.say(f"  {stage}: {line}")

    def judged(self, attempt: Attempt) -> None:
        """The verdict on one attempt, in a line or two."""
        verdict = attempt.verdict
        if verdict is None:
            return
        if verdict.ok:
            tax = f", tax {verdict.tax:.3f}" if verdict.tax is not None else ""
            kept = f", kept as {attempt.entry.get('digest', '')[:12]}" if attempt.entry else ""
            self.say(f"attempt {attempt.number}: {verdict.status}{tax}{kept}{_cost(attempt)}", "green")
            if attempt.not_kept:
                self.say(f"  not admitted: {attempt.not_kept}", "yellow")
            return
        stage = next((s.stage for s in verdict.stages if s.outcome == "failed"), "gate")
        again = f" (the same as attempt {attempt.repeats})" if attempt.repeats else ""
        said = f"{verdict.status} at {stage}{again}{_cost(attempt)}: {verdict.finding or verdict.note}"
        self.say(f"attempt {attempt.number}: {said}", "yellow")

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(escape(text))


def _cost(attempt: Attempt) -> str:
    """What one attempt took, in brackets; "" where nothing is to be paid."""
    usage, parts = attempt.usage, []
    tokens = [usage.get(k) for k in ("input_tokens", "output_tokens")] if usage.get("known", True) else []
    if count := sum(n for n in tokens if isinstance(n, int)):
        parts.append(f"{count:,} tokens")
    if dollars := usage.get("dollars"):
        parts.append(f"${dollars:.4f}")
    if attempt.gpu_seconds:
        parts.append(f"{attempt.gpu_seconds:.1f} s of GPU")
    return f" ({', '.join(parts)})" if parts else ""
