"""Models behind Anthropic's Messages API, through the official SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..prices import count
from .failures import cut_off, not_understood, one_line, received
from .hosted import Hosted, given, system_and_turns
from .model import Answer, Message, ModelError, OnText, Usage

ENDS = {"end_turn": "end", "stop_sequence": "end", "max_tokens": "length", "model_context_window_exceeded": "length"}
LEAST_THINKING = 1024


class AnthropicMessages(Hosted):
    """`anthropic:NAME`. The system part is marked for the provider's cache, as every turn repeats it."""

    provider = "Anthropic"

    def __init__(self, model: str, *, thinking: int | Literal["adaptive"] | None = None, **options: Any) -> None:
        """thinking: a budget of tokens for thinking, at least 1024, or "adaptive". The budget shrinks where
            max_tokens leaves less, so that as much as the least budget is left for the answer itself.

        options: as for every hosted model.
        """
        super().__init__(model, **options)
        good = thinking in (None, "adaptive") or (isinstance(thinking, int) and thinking >= LEAST_THINKING)
        if not good:
            raise ModelError(
                f"thinking={thinking!r} is not a budget; give a number of tokens from {LEAST_THINKING} or 'adaptive'",
                "bad-request",
            )
        self.thinking = thinking

    def request(self, messages: Sequence[Message], max_tokens: int) -> dict[str, Any]:
        system, turns = system_and_turns(messages)
        request: dict[str, Any] = {"model": self.model, "max_tokens": max_tokens, "messages": turns}
        if system:
            request["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        if self.thinking == "adaptive":
            request["thinking"] = {"type": "adaptive"}
        elif self.thinking is not None and max_tokens >= 2 * LEAST_THINKING:
            budget = min(self.thinking, max_tokens - LEAST_THINKING)
            request["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if self.effort:
            request["output_config"] = {"effort": self.effort}
        return request

    def whole(self, request: dict[str, Any]) -> Answer:
        message = self.client.messages.create(**request)
        content = given(message, "content")
        if not isinstance(content, list):
            raise not_understood(self.endpoint)
        text = "".join(block.text for block in content if block.type == "text")
        return self._finished(text, message, message, _counts(given(message, "usage")))

    def streamed(self, request: dict[str, Any], on_text: OnText, deadline: float) -> Answer:
        text: list[str] = []
        counts: dict[str, int] = {}
        message = last = None
        with self.client.messages.create(**request, stream=True) as stream:
            for event in received(stream, self.sdk, self.endpoint, deadline):
                kind = given(event, "type")
                if kind == "message_start":
                    message = event.message
                    counts |= _counts(given(message, "usage"))
                elif kind == "content_block_delta" and given(event, "delta", "type") == "text_delta":
                    text.append(event.delta.text)
                    on_text(event.delta.text)
                elif kind == "message_delta":
                    last = event.delta
                    counts |= _counts(given(event, "usage"))  # running totals: the last one counts
        if not given(last, "stop_reason"):
            raise cut_off(self.endpoint)
        return self._finished("".join(text), message, last, counts)

    def _finished(self, text: str, message: Any, last: Any, counts: dict[str, int]) -> Answer:
        """message: has the model's name. last: has the reason of the stop."""
        usage = self._usage(counts)
        stop = given(last, "stop_reason") or "end"
        if stop == "refusal":
            reason = one_line(given(last, "stop_details", "explanation"), self.endpoint)
            said = f"{self.model} refused to answer" + (f": {reason}" if reason else "")
            raise ModelError(said, "refused", usage=usage)
        name = given(message, "model") or self.model
        return Answer(text=text, usage=usage, model=name, stop_reason=ENDS.get(stop, stop))

    def _usage(self, counts: dict[str, int]) -> Usage:
        if not counts:
            return Usage(known=False)
        # This API counts what was read from and written to the cache apart from the rest of the prompt.
        cached, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
        return count(
            self.price,
            input_tokens=counts.get("input_tokens", 0) + cached + written,
            cached_tokens=cached,
            cache_write_tokens=written,
            output_tokens=counts.get("output_tokens", 0),
        )


def _counts(usage: Any) -> dict[str, int]:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    found = {name: given(usage, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
