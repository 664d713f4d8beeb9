"""A small HTTP server that speaks the three APIs, so that the real SDKs are tested against real connections."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from codasmith.agent.models import Message, Model, Patience, make_model

KEY = "sk-test-0123456789abcdefSECRET"
CONVERSATION = [Message(role="system", content="Write epilogues."), Message(role="user", content="Relu, please.")]


@dataclass
class Reply:
    """What the server sends for one request."""

    chunks: list[bytes]
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before the first byte."""
    pause: float = 0.0
    """Seconds before each chunk."""
    end: str = "proper"
    """"proper"; "reset": the connection drops inside the body; "silent": it closes as if the body were whole."""


class Wire:
    """The server: replies are given in order, the last one again and again; requests are kept."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        wire = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                wire.requests.append(json.loads(body))
                wire.paths.append(self.path)
                wire.headers.append({k.lower(): v for k, v in self.headers.items()})
                reply = wire.replies.pop(0) if len(wire.replies) > 1 else wire.replies[0]
                try:
                    self._send(reply)
                except ConnectionError:  # the client gave up
                    self.close_connection = True

            def _send(self, reply: Reply) -> None:
                wire.closing.wait(reply.delay)
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.kind)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                chunked = reply.end != "silent"
                self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Connection", "close")))
                self.end_headers()
                for chunk in reply.chunks:
                    wire.closing.wait(reply.pause)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
                    self.wfile.flush()
                if reply.end == "proper":
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def _events(events: list[dict[str, Any]], named: bool) -> list[bytes]:
    return [((f"event: {e['type']}\n" if named else "") + f"data: {json.dumps(e)}\n\n").encode() for e in events]


class Anthropic:
    """100 tokens of input, of which 60 came from the cache and 10 went into it; 7 of output."""

    provider, path, written = "anthropic", "/v1/messages", 10
    length, refusal = "max_tokens", "refusal"

    def base_url(self, wire: Wire) -> str:
        return wire.url

    def whole(self, text: str = "ok", stop: str = "end_turn") -> Reply:
        message = self._message(
            [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": text}]
        )
        return Reply([json.dumps(message | {"stop_reason": stop}).encode()])

    def stream(self, pieces: list[str], stop: str = "end_turn", last: int | None = None, **more: Any) -> Reply:
        delta = {"type": "content_block_delta", "index": 0}
        events = [
            {"type": "message_start", "message": self._message([])},
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *[delta | {"delta": {"type": "text_delta", "text": p}} for p in pieces],
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ]
        return Reply(_events(events, named=True)[:last], kind="text/event-stream", **more)

    def broken(self) -> Reply:
        """A stream that ends in an error that may pass."""
        reply = self.stream(["half"], last=4)
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        return Reply([*reply.chunks, *_events([error], named=True)], kind=reply.kind)

    def error(
        self, status: int, message: str, name: str = "some_error", headers: dict[str, str] | None = None
    ) -> Reply:
        body = {"type": "error", "error": {"type": name, "message": message}}
        return Reply([json.dumps(body).encode()], status=status, headers=headers or {})

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        usage = {
            "input_tokens": 30,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 10,
            "output_tokens": 7,
        }
        start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "tiny-2026-01-01"}
        return start | {"content": content, "stop_reason": None, "stop_sequence": None, "usage": usage}


class Chat:
    """The same counts as above, without tokens written to the cache."""

    provider, path, written = "openai", "/v1/chat/completions", 0
    length, refusal = "length", "content_filter"

    usage = {  # noqa: RUF012
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 60},
    }

    def base_url(self, wire: Wire) -> str:
        return wire.url + "/v1"

    def whole(self, text: str = "ok", stop: str = "stop") -> Reply:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": stop}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny-2026-01-01", "choices": [choice]}
        return Reply([json.dumps(body | {"usage": self.usage}).encode()])

    def stream(self, pieces: list[str], stop: str = "stop", last: int | None = None, **more: Any) -> Reply:
        start = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny-2026-01-01"}
        chunks = [
            start | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
            *[start | {"choices": [{"index": 0, "delta": {"content": p}, "finish_reason": None}]} for p in pieces],
            start | {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
            start | {"choices": [], "usage": self.usage},
        ]
        sent = [*_events(chunks, named=False), b"data: [DONE]\n\n"][:last]
        return Reply(sent, kind="text/event-stream", **more)

    def broken(self) -> Reply:
        reply = self.stream(["half"], last=2)
        error = {"error": {"message": "engine died", "type": "server_error", "code": 500}}
        return Reply([*reply.chunks, f"data: {json.dumps(error)}\n\n".encode()], kind=reply.kind)

    def error(
        self, status: int, message: str, name: str = "some_error", headers: dict[str, str] | None = None
    ) -> Reply:
        body = {"error": {"message": message, "type": name, "code": name, "param": None}}
        return Reply([json.dumps(body).encode()], status=status, headers=headers or {})


class Responses(Chat):
    path = "/v1/responses"
    length, refusal = "max_output_tokens", "content_filter"

    def whole(self, text: str = "ok", stop: str = "") -> Reply:
        return Reply([json.dumps(self._response(text, stop)).encode()])

    def stream(self, pieces: list[str], stop: str = "", last: int | None = None, **more: Any) -> Reply:
        ended = "response.incomplete" if stop else "response.completed"
        delta = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": self._response("", "")},
            *[delta | {"delta": p} for p in pieces],
            {"type": ended, "response": self._response("".join(pieces), stop)},
        ]
        events = [e | {"sequence_number": n} for n, e in enumerate(events)]
        return Reply(_events(events, named=True)[:last], kind="text/event-stream", **more)

    def broken(self) -> Reply:
        reply = self.stream(["half"], last=2)
        failed = self._response("", "") | {
            "status": "failed",
            "error": {"code": "server_error", "message": "engine died"},
        }
        event = {"type": "response.failed", "response": failed, "sequence_number": 9}
        return Reply([*reply.chunks, *_events([event], named=True)], kind=reply.kind)

    def _response(self, text: str, stop: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
        return {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "tiny-2026-01-01",
            "status": "incomplete" if stop else "completed",
            "incomplete_details": {"reason": stop} if stop else None,
            "output": [{"type": "reasoning", "id": "t", "summary": []}, message],
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 107,
            },
        }


APIS = {"anthropic": Anthropic, "chat": Chat, "responses": Responses}


class Setting:
    """One API with a server that speaks it, and a model that asks there."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.name, self.wire, self.api = name, wire, APIS[name]()
        self.slept: list[float] = []

    def model(self, *replies: Reply, attempts: int = 4, wait: float = 60.0, **options: Any) -> Model:
        self.wire.replies = list(replies)
        if self.api.provider == "openai":
            options = {"api": self.name, **options}
        patience = Patience(attempts=attempts, wait=wait, first=0.5, longest=4.0, sleep=self.slept.append)
        options = {"base_url": self.api.base_url(self.wire), "timeout": 5.0, "patience": patience, **options}
        return make_model(f"{self.api.provider}:tiny", **options)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Keys of our own, no proxy, and no settings of whoever runs the tests."""
    # Plain HTTP needs no certificates, and reading them is most of what making a client takes.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("CODASMITH_PRICES", raising=False)


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture
def make_setting(wire: Wire) -> Callable[[str], Setting]:
    return lambda name: Setting(name, wire)


@pytest.fixture(params=list(APIS))
def setting(request: pytest.FixtureRequest, wire: Wire) -> Setting:
    return Setting(request.param, wire)


@pytest.fixture
def conversation() -> list[Message]:
    return list(CONVERSATION)


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
def soon() -> str:
    """An HTTP date 20 seconds from now."""
    from email.utils import formatdate

    return formatdate(time.time() + 20, usegmt=True)
