"""What the agent knows of a model: it answers a conversation with text, and says what that cost.

Anything with a `name` and an `answer` method is a model; the adapters beside this file are examples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

Role = Literal["system", "user", "assistant"]
OnText = Callable[[str], None]

FailureKind = Literal[
    "missing-key",
    "bad-key",
    "rate-limited",
    "overloaded",
    "timeout",
    "cut-off",
    "refused",
    "unknown-model",
    "bad-request",
    "unreachable",
    "finished",
    "other",
]


class Message(BaseModel):
    """One turn of the conversation."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str


class Usage(BaseModel):
    """What one answer took."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int = 0
    """All tokens of the prompt, those read from or written to a cache included."""
    cached_tokens: int = 0
    """Those of the input that were read from the provider's cache."""
    output_tokens: int = 0
    """All tokens that the model wrote, its reasoning included."""
    dollars: float | None = None
    """None where the price is not known."""
    cache_write_tokens: int = 0
    """Those of the input that were written to the provider's cache, which some providers charge for."""
    known: bool = True
    """False where the model did not report its usage; the counts are then zero, and mean nothing."""
    broken: int = 0
    """Calls for this answer that broke off before it. Providers charge for them and do not say what: in no sum."""


class Answer(BaseModel):
    """What a model said."""

    model_config = ConfigDict(frozen=True)

    text: str
    usage: Usage
    model: str
    """The model that answered, as it names itself."""
    stop_reason: str = "end"
    """"end": it had finished. "length": it was cut at `max_tokens`. Anything else is the provider's own word."""
    seconds: float = 0.0
    """From asking to the whole answer, repeated attempts and the waits between them included."""


class ModelError(Exception):
    """A model that did not answer, in one sentence that never contains the key.

    kind: what went wrong, one of `FailureKind`.
    retryable: whether the same question may succeed later; adapters have by then retried as far as they may.
    retry_after: seconds that the server asked to wait, if it did.
    usage: what the failed answer cost, where that is known (a refusal is charged for).
    """

    def __init__(
        self,
        message: str,
        kind: FailureKind,
        retryable: bool = False,
        *,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.retryable = retryable
        self.retry_after = retry_after
        self.usage = usage

    def __str__(self) -> str:
        return self.message


class Model(Protocol):
    """Anything that answers a conversation.

    A model may also have `prepare(task)`, which the loop calls once, before the first question; `recall(answers)`,
    called after that with what it answered in a run that goes on; and `gives_up_after`, the patience of a run whose
    user names no goal (without it such a run ends at the first attempt that passes).  One whose `concurrent` is true
    may be asked by several threads at once.  A model that has nothing left to say raises ModelError of the kind
    "finished".
    """

    name: str
    """As a person would ask for it, such as "anthropic:claude-sonnet-5-5"."""

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        """The next assistant turn.

        max_tokens: the most tokens to write, reasoning included, where the model can be held to it.
        on_text: called with each piece of text as it arrives. For display only: after a broken stream the
            answer starts again, and a line between says so.

        Raises ModelError.
        """
        ...


def prompt_digest(messages: Sequence[Message]) -> str:
    """sha256 over the roles and contents of a conversation: the key of a prompt in a journal."""
    turns = [[m.role, m.content] for m in messages]
    return hashlib.sha256(json.dumps(turns, ensure_ascii=True).encode()).hexdigest()
