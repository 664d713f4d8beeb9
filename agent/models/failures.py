"""What the SDKs raise, as one sentence each.

Both official SDKs share the names of their exceptions, so one mapping serves both. An SDK's exception holds
the request, and the request holds the key: a ModelError is therefore raised outside the `except` block, so
that no chain of exceptions leads back to it.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any, TypeVar

from .endpoint import Endpoint
from .model import FailureKind, ModelError

T = TypeVar("T")

BUSY = {409, 500, 502, 503, 504, 529}
POLICY = {"content_filter", "content_policy_violation", "bio_policy", "misalignment_policy_violation"}

# Errors that arrive inside a stream carry no HTTP status, only a name.
STATUS_OF = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "insufficient_quota": 429,
}


def attempt(once: Callable[[], T], sdk: ModuleType, endpoint: Endpoint, model: str) -> T:
    """Ask once; whatever the SDK or the connection raises becomes a ModelError."""
    try:
        return once()
    except (getattr(sdk, f"{endpoint.provider}Error"), *_http_errors("HTTPError"), json.JSONDecodeError) as error:
        failure = explain(error, sdk, endpoint, model)
    raise failure


def received(events: Iterable[T], sdk: ModuleType, endpoint: Endpoint, deadline: float) -> Iterator[T]:
    """The events of a stream; a broken one raises ModelError cut-off, one past the deadline raises timeout.

    deadline: on the clock of time.monotonic, for streams that trickle for ever. What is no stream at all, as the page
    of a web server, raises other: to ask again would not help.
    """
    event = None
    try:
        for event in events:
            if time.monotonic() > deadline:
                failure = timed_out(endpoint)
                break
            yield event
        else:
            if event is None and not _is_stream(events):
                raise not_understood(endpoint)
            return
    except sdk.APITimeoutError:
        failure = timed_out(endpoint)
    except _http_errors("TimeoutException"):
        failure = timed_out(endpoint)
    except (sdk.APIConnectionError, *_http_errors("HTTPError"), json.JSONDecodeError):
        failure = cut_off(endpoint)
    raise failure


def _is_stream(events: object) -> bool:
    """Whether the server said so; an empty answer of one that says nothing may be a stream that broke."""
    headers = getattr(getattr(events, "response", None), "headers", {})
    return "event-stream" in headers.get("content-type", "event-stream")


def explain(error: Exception, sdk: ModuleType, endpoint: Endpoint, model: str) -> ModelError:
    """The ModelError for what an SDK raised."""
    if isinstance(error, (sdk.APITimeoutError, *_http_errors("TimeoutException"))):
        return timed_out(endpoint)
    if isinstance(error, (sdk.APIConnectionError, *_http_errors("HTTPError"))):
        return ModelError(
            f"{endpoint.host} cannot be reached or closed the connection ({_cause(error)}); "
            "check the network and the base URL",
            "unreachable",
            True,
        )
    if isinstance(error, (json.JSONDecodeError, sdk.APIResponseValidationError)):
        return not_understood(endpoint)
    if isinstance(error, sdk.APIError):
        body = getattr(error, "body", None)
        name, said = _named(body, endpoint)
        status = getattr(error, "status_code", None)
        if status is None or status < 400:
            status = status_of(name)
        headers = getattr(getattr(error, "response", None), "headers", {})
        return refused_with(status, name, said, headers, endpoint, model)
    return ModelError(f"the {endpoint.provider} SDK failed with {type(error).__name__}", "other")


def status_of(name: str) -> int:
    """The HTTP status that an error's name stands for, for errors that arrive inside a stream or an answer."""
    return int(name) if name.isdigit() else STATUS_OF.get(name, 500)


def refused_with(status: int, name: str, said: str, headers: Any, endpoint: Endpoint, model: str) -> ModelError:
    """The ModelError for an HTTP status.

    name: the provider's short name of the error, or "". said: the provider's sentence, or "".
    """
    host, variable, because = endpoint.host, endpoint.variable, f": {said}" if said else ""

    def failure(message: str, kind: FailureKind, retryable: bool = False) -> ModelError:
        return ModelError(message, kind, retryable, retry_after=retry_after(headers) if retryable else None)

    if name in POLICY:
        return failure(f"{model} refused the request{because}", "refused")
    if status == 401:  # What the server says here may repeat a part of the key, so it is not shown.
        return failure(f"{host} does not accept the key in {variable}; check it", "bad-key")
    if status == 403:
        return failure(f"the key in {variable} may not use {model} at {host}{because}", "bad-key")
    if status == 404:
        return failure(
            f"{host} knows no model {model!r}, or its base URL is incomplete (for OpenAI's API it mostly ends in /v1, "
            f"for Anthropic's it does not){because}",
            "unknown-model",
        )
    if status == 402 or name == "insufficient_quota":
        return failure(f"the account at {host} has no credit left{because}", "rate-limited")
    if status == 429:
        wait = retry_after(headers)
        asks = f"; it asks to wait {wait:.0f} s" if wait else ""
        return failure(f"{host} limits the rate of requests (HTTP 429){asks}{because}", "rate-limited", True)
    if status == 408:
        return failure(f"{host} gave up waiting (HTTP 408){because}", "timeout", True)
    if status in BUSY:
        return failure(f"{host} is overloaded or out of order (HTTP {status}){because}", "overloaded", True)
    if 400 <= status < 500:
        return failure(f"{host} does not accept the request (HTTP {status}){because}", "bad-request")
    return failure(f"{host} failed (HTTP {status}){because}", "other")


def timed_out(endpoint: Endpoint) -> ModelError:
    return ModelError(
        f"{endpoint.host} did not answer in time; give it more with --timeout, or ask for less", "timeout", True
    )


def cut_off(endpoint: Endpoint) -> ModelError:
    return ModelError(f"the answer from {endpoint.host} was cut off before its end", "cut-off", True)


def not_understood(endpoint: Endpoint) -> ModelError:
    return ModelError(
        f"what {endpoint.host} answered is not in the format of {endpoint.provider}'s API; check the base URL", "other"
    )


def retry_after(headers: Any) -> float | None:
    """Seconds to wait by the Retry-After header, a number or an HTTP date; None without one that makes sense."""
    text = (headers.get("retry-after") or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _named(body: object, endpoint: Endpoint) -> tuple[str, str]:
    """The provider's short name of an error, and its sentence on one line, from the body of a response."""
    inner = body.get("error", body) if isinstance(body, dict) else {}
    if not isinstance(inner, dict):
        inner = {"message": inner}
    name = next((str(inner[k]) for k in ("code", "type") if inner.get(k)), "")
    return name, one_line(inner.get("message"), endpoint)


def one_line(text: object, endpoint: Endpoint, limit: int = 300) -> str:
    """A server's words made fit to show: one line, not endless, without secrets."""
    words = " ".join(endpoint.without_secrets(str(text or "")).split())
    return words if len(words) <= limit else words[:limit] + " ..."


def _cause(error: BaseException) -> str:
    """The class of the innermost cause, such as ConnectError; its text could hold the address."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


def _http_errors(name: str) -> tuple[type[Exception], ...]:
    """The class of that name in each HTTP library loaded: older SDKs use httpx, newer ones httpx2."""
    return tuple(getattr(sys.modules[m], name) for m in ("httpx", "httpx2") if m in sys.modules)
