"""The model that needs no network: it translates the task's own reference."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .model import Answer, Message, ModelError, OnText, Usage

if TYPE_CHECKING:
    from ...tasks import Task


class BuiltinTracer:
    """`builtin:tracer`. It reads the task, not the conversation, so it gives the same answer each time."""

    name = "builtin:tracer"

    def __init__(self) -> None:
        self._task: Task | None = None

    def prepare(self, task: Task) -> None:
        """Take the task that the next answer is for."""
        self._task = task

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        """The traced epilogue, in a fenced block. Raises ModelError where no task was given."""
        if self._task is None:
            raise ModelError("builtin:tracer was given no task; call prepare(task) before asking it", "bad-request")
        from .tracer import answer  # imports torch

        began = time.monotonic()
        text = f"```python\n{answer(self._task).rstrip()}\n```\n"
        if on_text is not None:
            on_text(text)
        return Answer(text=text, usage=Usage(dollars=0.0), model=self.name, seconds=time.monotonic() - began)
