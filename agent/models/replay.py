"""A recorded campaign as a model: the answers of a journal again, in their order, at no cost."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from .model import Answer, Message, ModelError, OnText, Usage, prompt_digest


class Replay:
    """`replay:FILE`. Usage is as it was recorded, so that budgets end the campaign where they ended it before.

    differences: the numbers, from 1, of the answers whose prompt was not the recorded one.
    problems: a sentence for each line of the file that was damaged and left out.
    """

    def __init__(self, file: str | Path) -> None:
        """file: a journal, JSON lines, of which those with "kind" (or "event") "answer" are read: text, usage,
            prompt_digest.

        Raises ModelError for a file that cannot be read or holds no answer.
        """
        self.path = Path(file).expanduser()
        self.name = f"replay:{file}"
        self.differences: list[int] = []
        self.problems: list[str] = []
        self._records = _answers(self.path, self.problems)
        self._given = 0

    def recall(self, answers: Sequence[str]) -> None:
        """Go on behind the answers that a stopped run was given."""
        self._given = min(len(answers), len(self._records))

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        """The next recorded answer, whatever is asked. Raises ModelError when there is none left."""
        began = time.monotonic()
        if self._given == len(self._records):
            raise ModelError(f"{self.path} holds {self._given} answers, and all have been given", "other")
        answer, digest = self._records[self._given]
        self._given += 1
        if digest and digest != prompt_digest(messages):
            self.differences.append(self._given)
        if on_text is not None:
            on_text(answer.text)
        return answer.model_copy(update={"seconds": time.monotonic() - began})


def _answers(path: Path, problems: list[str]) -> list[tuple[Answer, str]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ModelError(
            f"the journal {path} cannot be read: {error.strerror}; check the path", "bad-request"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # a killed run leaves a line that is cut short
            problems.append(f"line {number} of {path} is damaged or was cut short; it is left out")
            continue
        if isinstance(event, dict) and "answer" in (event.get("kind"), event.get("event")):
            found.append(_answer(event, number, path))
    if not found:
        raise ModelError(
            f"the journal {path} holds no answer of a model; give one of a campaign that ran", "bad-request"
        )
    return found


def _answer(event: dict, number: int, path: Path) -> tuple[Answer, str]:
    try:
        answer = Answer.model_validate(
            {
                "text": event.get("text"),
                "usage": event.get("usage") or Usage(known=False),
                "model": event.get("model") or "unknown",
                "stop_reason": event.get("stop_reason") or "end",
            }
        )
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        raise ModelError(
            f"line {number} of the journal {path} is not a recorded answer: {field} is missing or wrong", "bad-request"
        ) from None
    return answer, str(event.get("prompt_digest") or "")
