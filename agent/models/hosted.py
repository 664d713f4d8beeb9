"""What every model behind an HTTP API has in common: its key and address, its price, and being asked again."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from ..prices import find_price
from .endpoint import find_endpoint
from .failures import attempt
from .model import Answer, Message, ModelError, OnText, Usage
from .patience import COSTLY, Patience, ask_patiently


class Hosted:
    """A model asked through its provider's official SDK. An adapter adds the three methods at the end."""

    provider: ClassVar[str]
    """"OpenAI" or "Anthropic": names the SDK's module and client and the environment variables."""
    concurrent: ClassVar[bool] = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_env: str | None = None,
        effort: str | None = None,
        timeout: float = 600.0,
        patience: Patience | None = None,
    ) -> None:
        """model: a model's name as the server writes it.

        base_url: another server that speaks this API; else PROVIDER_BASE_URL, else the provider's own.
        effort: how much to reason, such as "low" or "high", for the models that know it.
        timeout: seconds that one attempt may take.

        Raises ModelError for a missing or impossible key or address; PriceError for a broken file of prices.
        """
        self.name = f"{self.provider.lower()}:{model}"
        self.model = model
        self.endpoint = find_endpoint(self.provider, base_url, key_env)
        self.price = find_price(model, list_prices=self.endpoint.own)
        self.effort = effort
        self.timeout = timeout
        self.patience = patience or Patience()
        self.sdk = importlib.import_module(self.provider.lower())
        self.client: Any = getattr(self.sdk, self.provider)(
            api_key=self.endpoint.key.get_secret_value(),
            base_url=self.endpoint.url.get_secret_value(),
            # Not the SDK's default, with which Anthropic's refuses long answers in one piece.
            timeout=self.sdk.Timeout(timeout, connect=min(timeout, 10.0)),
            max_retries=0,  # `patience` retries, so that there is one place that does
        )

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        """The next assistant turn; streamed where `on_text` is given. Raises ModelError."""
        request = self.request(messages, max_tokens)
        began, broken = time.monotonic(), 0

        def once(on_text: OnText | None) -> Answer:
            nonlocal broken
            try:
                if on_text is None:
                    return attempt(lambda: self.whole(request), self.sdk, self.endpoint, self.model)
                deadline = time.monotonic() + self.timeout
                return attempt(lambda: self.streamed(request, on_text, deadline), self.sdk, self.endpoint, self.model)
            except ModelError as error:
                broken += error.kind in COSTLY
                raise

        try:
            answer = ask_patiently(once, self.patience, on_text)
        except ModelError as error:
            if broken:
                error.usage = (error.usage or Usage(dollars=0.0)).model_copy(update={"broken": broken})
            raise
        usage = answer.usage.model_copy(update={"broken": broken})
        return answer.model_copy(update={"usage": usage, "seconds": time.monotonic() - began})

    def request(self, messages: Sequence[Message], max_tokens: int) -> dict[str, Any]:
        """The body of the request."""
        raise NotImplementedError

    def whole(self, request: dict[str, Any]) -> Answer:
        """Ask once and read the answer in one piece."""
        raise NotImplementedError

    def streamed(self, request: dict[str, Any], on_text: OnText, deadline: float) -> Answer:
        """Ask once and read the answer as it is written."""
        raise NotImplementedError


def system_and_turns(messages: Sequence[Message]) -> tuple[str, list[dict[str, str]]]:
    """The system messages as one text, and the other turns, for APIs that keep the two apart."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    return system, [{"role": m.role, "content": m.content} for m in messages if m.role != "system"]


def given(thing: Any, *path: str) -> Any:
    """A field of an SDK's object, or None: the SDKs leave a field out where a compatible server sent none."""
    for name in path:
        thing = getattr(thing, name, None)
    return thing
