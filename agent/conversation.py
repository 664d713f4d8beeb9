"""One question to the model: the fixed part, the task, and the attempts that the strategy chose to tell of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .feedback import attempt_turns
from .models import Message
from .prompt import system_text, task_text

if TYPE_CHECKING:
    from ..tasks import Task
    from .history import Attempt


def conversation(
    task: Task, shown: Sequence[Attempt] = (), *, tier: str = "closed", target: str | None = None
) -> list[Message]:
    """The messages. shown: see `strategies`. target: what the model is told to reach, as `stops` words it."""
    return [
        Message(role="system", content=system_text(task, tier)),
        Message(role="user", content=task_text(task, tier)),
        *attempt_turns(shown, target=target, task=task),
    ]
