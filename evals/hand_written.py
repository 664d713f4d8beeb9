"""The epilogues that ship, answering as a model would: the line in the table that a model is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from ..agent.models import Answer, Message, ModelError, OnText, Usage
from ..tasks.load import plain_task
from ..tasks.scaled import scaled_epilogue

if TYPE_CHECKING:
    from ..tasks import Task

NAME = "hand-written"


class HandWritten:
    """A model whose every answer is the hand-written epilogue of the task."""

    name = NAME

    def __init__(self, tier: str = "closed"):
        self.tier = tier
        self._source: str | None = None

    def prepare(self, task: Task) -> None:
        self._source = source_for(task.name, self.tier)

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        if self._source is None:
            raise ModelError(f"there is no hand-written epilogue in the {self.tier} tier for this task", "other")
        return Answer(text=f"```python\n{self._source}```\n", usage=Usage(dollars=0.0), model=NAME)


def source_for(task: str, tier: str = "closed", folder: Traversable | None = None) -> str | None:
    """The text of the task's hand-written epilogues, with fp8 operands that of the task without; None without any.

    folder: where they lie, as TASK.py, programs/TASK.py and cutedsl/TASK.py; by default those that ship.
    """
    folder = folder or resources.files("codasmith.verified_kernels.hand_written")
    places = ((), ("programs",)) if tier == "closed" else ((tier,),)
    files = (folder.joinpath(*place, f"{task}.py") for place in places)
    found = next((file.read_text(encoding="utf-8") for file in files if file.is_file()), None)
    base = plain_task(task) if tier == "closed" else None
    if found is not None or base is None:
        return found
    plain = source_for(base.name, tier, folder)
    return None if plain is None else scaled_epilogue(plain, base)
