"""Models behind the chat completions API, which most servers of open models speak too, through OpenAI's SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..prices import count
from .failures import cut_off, not_understood, one_line, received
from .hosted import Hosted, given
from .model import Answer, Message, ModelError, OnText, Usage

ENDS = {"stop": "end", "length": "length"}


class OpenAIChat(Hosted):
    """`openai:NAME` with api="chat": OpenAI, vLLM, SGLang, Ollama and other compatible servers."""

    provider = "OpenAI"

    def request(self, messages: Sequence[Message], max_tokens: int) -> dict[str, Any]:
        # OpenAI's reasoning models take only the newer name; some other servers know only the older one.
        limit = "max_completion_tokens" if self.endpoint.own else "max_tokens"
        turns = [{"role": m.role, "content": m.content} for m in messages]
        request: dict[str, Any] = {"model": self.model, limit: max_tokens, "messages": turns}
        if self.effort:
            request["reasoning_effort"] = self.effort
        return request

    def whole(self, request: dict[str, Any]) -> Answer:
        completion = self.client.chat.completions.create(**request)
        choices = given(completion, "choices")
        said = given(choices[0], "message") if choices else None
        if said is None:
            raise not_understood(self.endpoint)
        stop = given(choices[0], "finish_reason") or "stop"
        return self._finished(
            given(said, "content"), given(said, "refusal"), stop, given(completion, "usage"), completion
        )

    def streamed(self, request: dict[str, Any], on_text: OnText, deadline: float) -> Answer:
        text: list[str] = []
        refusal: list[str] = []
        stop = usage = chunk = None
        asked = self.client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
        with asked as stream:
            for chunk in received(stream, self.sdk, self.endpoint, deadline):
                usage = given(chunk, "usage") or usage  # comes alone, after the last choice
                for choice in (given(chunk, "choices") or [])[:1]:
                    stop = given(choice, "finish_reason") or stop
                    if piece := given(choice, "delta", "refusal"):
                        refusal.append(piece)
                    if piece := given(choice, "delta", "content"):
                        text.append(piece)
                        on_text(piece)
        if stop is None:
            raise cut_off(self.endpoint)
        return self._finished("".join(text), "".join(refusal), stop, usage, chunk)

    def _finished(self, text: str | None, refusal: str | None, stop: str, counts: Any, reply: Any) -> Answer:
        """reply: has the model's name."""
        usage = self._usage(counts)
        if refusal or stop == "content_filter":
            reason = one_line(refusal or "stopped by the content filter", self.endpoint)
            raise ModelError(f"{self.model} refused to answer: {reason}", "refused", usage=usage)
        name = given(reply, "model") or self.model
        return Answer(text=text or "", usage=usage, model=name, stop_reason=ENDS.get(stop, stop))

    def _usage(self, counts: Any) -> Usage:
        if given(counts, "prompt_tokens") is None:
            return Usage(known=False)
        return count(
            self.price,
            input_tokens=counts.prompt_tokens,
            cached_tokens=given(counts, "prompt_tokens_details", "cached_tokens") or 0,
            cache_write_tokens=given(counts, "prompt_tokens_details", "cache_write_tokens") or 0,
            output_tokens=given(counts, "completion_tokens") or 0,
        )
