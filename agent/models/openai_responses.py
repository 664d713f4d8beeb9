"""Models behind OpenAI's Responses API, through the official SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..prices import count
from .failures import cut_off, not_understood, one_line, received, refused_with, status_of
from .hosted import Hosted, given, system_and_turns
from .model import Answer, Message, ModelError, OnText, Usage


class OpenAIResponses(Hosted):
    """`openai:NAME` at OpenAI's own address, or with api="responses"."""

    provider = "OpenAI"

    def request(self, messages: Sequence[Message], max_tokens: int) -> dict[str, Any]:
        system, turns = system_and_turns(messages)
        request: dict[str, Any] = {
            "model": self.model,
            "max_output_tokens": max_tokens,
            "input": turns,
            "store": False,  # the conversation is in our journal; the server need not keep it
        }
        if system:
            request["instructions"] = system
        if self.effort:
            request["reasoning"] = {"effort": self.effort}
        return request

    def whole(self, request: dict[str, Any]) -> Answer:
        return self._read(self.client.responses.create(**request))

    def streamed(self, request: dict[str, Any], on_text: OnText, deadline: float) -> Answer:
        response = None
        with self.client.responses.create(**request, stream=True) as stream:
            for event in received(stream, self.sdk, self.endpoint, deadline):
                kind = given(event, "type")
                if kind == "response.output_text.delta":
                    on_text(event.delta)
                elif kind in ("response.completed", "response.incomplete", "response.failed"):
                    response = event.response
                elif kind == "error":
                    raise self._failed(event)
        if response is None:
            raise cut_off(self.endpoint)
        return self._read(response)

    def _read(self, response: Any) -> Answer:
        status = given(response, "status")
        if status == "failed":
            raise self._failed(given(response, "error"))
        if not isinstance(given(response, "output"), list):
            raise not_understood(self.endpoint)
        parts = [part for item in response.output if item.type == "message" for part in item.content or []]
        text = "".join(part.text for part in parts if part.type == "output_text")
        refusal = " ".join(part.refusal for part in parts if part.type == "refusal")
        usage = self._usage(given(response, "usage"))
        stop = "end"
        if status == "incomplete":
            stop = given(response, "incomplete_details", "reason") or "incomplete"
        if refusal or stop == "content_filter":
            reason = one_line(refusal or "stopped by the content filter", self.endpoint)
            raise ModelError(f"{self.model} refused to answer: {reason}", "refused", usage=usage)
        stop = "length" if stop == "max_output_tokens" else stop
        return Answer(text=text, usage=usage, model=given(response, "model") or self.model, stop_reason=stop)

    def _failed(self, error: Any) -> ModelError:
        """error: has a code and a message, as in a failed response or an error event."""
        name = given(error, "code") or ""
        said = one_line(given(error, "message"), self.endpoint)
        return refused_with(status_of(name), name, said, {}, self.endpoint, self.model)

    def _usage(self, counts: Any) -> Usage:
        if given(counts, "input_tokens") is None:
            return Usage(known=False)
        return count(
            self.price,
            input_tokens=counts.input_tokens,
            cached_tokens=given(counts, "input_tokens_details", "cached_tokens") or 0,
            cache_write_tokens=given(counts, "input_tokens_details", "cache_write_tokens") or 0,
            output_tokens=given(counts, "output_tokens") or 0,
        )
