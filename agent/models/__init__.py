"""Models: whatever answers a conversation. `make_model` makes one from its name.

| name | what |
|---|---|
| anthropic:NAME | Anthropic's Messages API; key in ANTHROPIC_API_KEY |
| openai:NAME | OpenAI's APIs, and with a base URL any compatible server; key in OPENAI_API_KEY |
| command:PROGRAM ARGS | any program: the prompt on stdin, the answer on stdout |
| replay:FILE | the answers of a recorded journal |
| builtin:tracer | no network: the task's own reference, translated |
| builtin:search | no network: the tracer's answer, then that with rewrites that are known to matter |

An adapter is one short file and imports its SDK only when it is made. A model that is not asked costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from .model import Answer, Message, Model, ModelError, OnText, Usage, prompt_digest
from .patience import Patience

__all__ = ["Answer", "Message", "Model", "ModelError", "OnText", "Patience", "Usage", "make_model", "prompt_digest"]


def make_model(spec: str, **options: Any) -> Model:
    """A model by its name.

    spec: as in the table above.
    options: what the adapter takes, of base_url, api ("chat" or "responses"), effort, thinking, timeout (seconds)
        and patience; those that are None are left out.

    Raises ModelError, in one sentence, for a name or option that is not known or a key that is missing.
    """
    provider, colon, name = spec.partition(":")
    provider, name = provider.strip(), name.strip()
    if not colon or provider not in _MAKERS:
        raise ModelError(f"unknown model {spec!r}; {_suggestion(provider, name)}", "unknown-model")
    if not name:
        raise ModelError(f"{spec!r} names no model; write {_MAKERS[provider][2]}", "unknown-model")
    make, known, _ = _MAKERS[provider]
    wanted = {key: value for key, value in options.items() if value is not None}
    for option in wanted:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ModelError(f"{provider}: has no option {option!r}; {takes}", "bad-request")
    timeout = wanted.get("timeout")
    if timeout is not None and not timeout > 0:
        raise ModelError(f"timeout={timeout!r} is not a number of seconds above 0", "bad-request")
    return make(name, **wanted)


def _openai(name: str, *, api: str | None = None, **options: Any) -> Model:
    from .endpoint import find_endpoint
    from .openai_chat import OpenAIChat
    from .openai_responses import OpenAIResponses

    if api is None:  # compatible servers speak the older API
        own = find_endpoint("OpenAI", options.get("base_url"), options.get("key_env")).own
        api = "responses" if own else "chat"
    if api not in ("responses", "chat"):
        raise ModelError(f"api={api!r} is not known; use 'responses' or 'chat'", "bad-request")
    return (OpenAIResponses if api == "responses" else OpenAIChat)(name, **options)


def _anthropic(name: str, **options: Any) -> Model:
    from .anthropic_messages import AnthropicMessages

    return AnthropicMessages(name, **options)


def _command(name: str, **options: Any) -> Model:
    from .command import Command

    return Command(name, **options)


def _replay(name: str) -> Model:
    from .replay import Replay

    return Replay(name)


def _builtin(name: str) -> Model:
    if name == "search":
        from .search import BuiltinSearch

        return BuiltinSearch()
    if name != "tracer":
        raise ModelError(
            f"unknown model 'builtin:{name}'; those that are built in are builtin:tracer and builtin:search",
            "unknown-model",
        )
    from .builtin import BuiltinTracer

    return BuiltinTracer()


_HOSTED = ("base_url", "key_env", "effort", "timeout", "patience")
_MAKERS: dict[str, tuple[Callable[..., Model], tuple[str, ...], str]] = {
    "anthropic": (_anthropic, ("thinking", *_HOSTED), "anthropic:NAME, such as anthropic:claude-sonnet-5-5"),
    "openai": (_openai, ("api", *_HOSTED), "openai:NAME, such as openai:gpt-5.4"),
    "command": (_command, ("timeout",), "command:PROGRAM ARGS"),
    "replay": (_replay, (), "replay:FILE"),
    "builtin": (_builtin, (), "builtin:tracer or builtin:search"),
}
"""By provider: what makes the model, the options that it takes, and how a model of it is written."""


def _suggestion(provider: str, name: str) -> str:
    """The nearest name that would be one."""
    if provider in ("tracer", "search"):
        return f"did you mean builtin:{provider}?"
    if not name and provider.startswith("claude"):
        return f"did you mean anthropic:{provider}?"
    if not name and provider.startswith(("gpt", "o1", "o3", "o4")):
        return f"did you mean openai:{provider}?"
    near = difflib.get_close_matches(provider.lower(), _MAKERS, n=1)
    if near:
        return f"did you mean {near[0]}:{'tracer' if near[0] == 'builtin' else name or 'NAME'}?"
    return f"write one of {', '.join(f'{p}:...' for p in _MAKERS)}, such as openai:gpt-5.4"
