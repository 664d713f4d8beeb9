"""The same question put several times at once, for strategies whose samples do not depend on each other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

from .models import Answer, Message, Model, ModelError, OnText


def ask_together(
    model: Model, messages: Sequence[Message], count: int, *, max_tokens: int, on_text: OnText
) -> Iterator[Answer | ModelError]:
    """What comes of `count` questions, in the order in which it comes.

    on_text: is called by several threads. Whoever stops listening leaves answers behind: the threads end with the
    process at the latest.
    """
    outcomes: queue.Queue[Answer | BaseException] = queue.Queue()

    def ask() -> None:
        try:
            outcomes.put(model.answer(messages, max_tokens=max_tokens, on_text=on_text))
        except BaseException as error:
            outcomes.put(error)

    for _ in range(count):
        threading.Thread(target=ask, daemon=True).start()
    for _ in range(count):
        outcome = outcomes.get()
        if isinstance(outcome, Answer | ModelError):
            yield outcome
        else:
            raise outcome
