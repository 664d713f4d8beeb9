"""What each adapter puts on the wire, and what only one of the APIs answers."""

from __future__ import annotations

import json

import pytest
from codasmith.agent.models import Message, ModelError, make_model

LONGER = [
    Message(role="system", content="A"),
    Message(role="system", content="B"),
    Message(role="user", content="one"),
    Message(role="assistant", content="two"),
    Message(role="user", content="three"),
]
TURNS = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
]


@pytest.fixture
def anthropic(make_setting):
    return make_setting("anthropic")


@pytest.fixture
def chat(make_setting):
    return make_setting("chat")


@pytest.fixture
def responses(make_setting):
    return make_setting("responses")


def sent(setting, **options):
    setting.model(setting.api.whole(), **options).answer(LONGER, max_tokens=5000)
    return setting.wire.requests[-1]


def test_anthropic_messages_are_sent_with_the_system_part_marked_for_the_cache(anthropic, key):
    assert sent(anthropic) == {
        "model": "tiny",
        "max_tokens": 5000,
        "system": [{"type": "text", "text": "A\n\nB", "cache_control": {"type": "ephemeral"}}],
        "messages": TURNS,
    }
    headers = anthropic.wire.headers[0]  # the SDK's versions differ in the header that they use
    assert key in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))


def test_chat_completions_are_sent_with_the_older_limit_to_other_servers(chat, key):
    assert sent(chat) == {
        "model": "tiny",
        "max_tokens": 5000,
        "messages": [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}, *TURNS],
    }
    assert chat.wire.headers[0]["authorization"] == f"Bearer {key}"


def test_responses_are_sent_without_leaving_a_copy(responses):
    assert sent(responses) == {
        "model": "tiny",
        "max_output_tokens": 5000,
        "instructions": "A\n\nB",
        "input": TURNS,
        "store": False,
    }


def test_openai_itself_is_sent_the_newer_limit():
    model = make_model("openai:tiny", api="chat")
    assert model.request(LONGER, 70)["max_completion_tokens"] == 70
    assert "max_tokens" not in model.request(LONGER, 70)


def test_openai_itself_is_asked_for_responses_and_other_servers_for_chat(chat):
    assert type(make_model("openai:tiny")).__name__ == "OpenAIResponses"
    assert type(make_model("openai:tiny", base_url=chat.wire.url)).__name__ == "OpenAIChat"


def test_a_streamed_chat_asks_for_its_usage(chat):
    chat.model(chat.api.stream(["a"])).answer(LONGER, max_tokens=9, on_text=lambda _: None)
    assert chat.wire.requests[0]["stream_options"] == {"include_usage": True}


def test_effort_goes_where_each_api_wants_it(make_setting):
    assert sent(make_setting("anthropic"), effort="high")["output_config"] == {"effort": "high"}
    assert sent(make_setting("chat"), effort="high")["reasoning_effort"] == "high"
    assert sent(make_setting("responses"), effort="high")["reasoning"] == {"effort": "high"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_thinking_budget_leaves_room_for_the_answer(anthropic):
    assert sent(anthropic, thinking=2000)["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert sent(anthropic, thinking=9000)["thinking"] == {"type": "enabled", "budget_tokens": 5000 - 1024}
    assert sent(anthropic, thinking="adaptive")["thinking"] == {"type": "adaptive"}
    model = anthropic.model(anthropic.api.whole(), thinking=2000)
    model.answer(LONGER, max_tokens=1500)
    assert "thinking" not in anthropic.wire.requests[-1]


@pytest.mark.parametrize("thinking", [100, -1, "lots", 1.5])
def test_a_thinking_budget_that_is_none_is_told(anthropic, thinking):
    with pytest.raises(ModelError, match="1024"):
        anthropic.model(thinking=thinking)


def test_a_refusal_in_words_is_told(chat, responses, conversation):
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    reply = chat.api.whole()
    body = json.loads(reply.chunks[0])
    body["choices"][0]["message"] = message
    reply.chunks = [json.dumps(body).encode()]
    with pytest.raises(ModelError, match="I cannot help") as caught:
        chat.model(reply).answer(conversation, max_tokens=9)
    assert caught.value.kind == "refused"

    reply = responses.api.whole()
    body = json.loads(reply.chunks[0])
    body["output"][1]["content"] = [{"type": "refusal", "refusal": "I cannot help with that."}]
    reply.chunks = [json.dumps(body).encode()]
    with pytest.raises(ModelError, match="I cannot help") as caught:
        responses.model(reply).answer(conversation, max_tokens=9)
    assert caught.value.kind == "refused"


def test_a_streamed_refusal_in_words_is_told(chat, conversation):
    pieces = [b'data: {"choices": [{"index": 0, "delta": {"refusal": "I can"}}]}\n\n']
    pieces += [b'data: {"choices": [{"index": 0, "delta": {"refusal": "not."}, "finish_reason": "stop"}]}\n\n']
    reply = chat.api.stream([])
    reply.chunks = pieces
    with pytest.raises(ModelError, match=r"I cannot\.") as caught:
        chat.model(reply).answer(conversation, max_tokens=9, on_text=lambda _: None)
    assert caught.value.kind == "refused"


def test_a_reason_for_a_refusal_is_told(anthropic, conversation):
    reply = anthropic.api.whole(stop="refusal")
    body = json.loads(reply.chunks[0])
    body["stop_details"] = {"type": "refusal", "category": None, "explanation": "It is not done."}
    reply.chunks = [json.dumps(body).encode()]
    with pytest.raises(ModelError, match="It is not done"):
        anthropic.model(reply).answer(conversation, max_tokens=9)


def test_a_sparse_server_is_understood_and_its_usage_unknown(chat, conversation):
    reply = chat.api.whole()
    reply.chunks = [b'{"choices": [{"message": {"content": "hi"}}]}']
    answer = chat.model(reply).answer(conversation, max_tokens=9)
    assert (answer.text, answer.model, answer.stop_reason) == ("hi", "tiny", "end")
    assert not answer.usage.known and answer.usage.dollars is None


def test_a_failed_response_is_told_by_its_code(responses, conversation):
    def failed(code: str):
        reply = responses.api.whole()
        error = {"code": code, "message": "so it is"}
        reply.chunks = [json.dumps({"id": "r", "object": "response", "status": "failed", "error": error}).encode()]
        with pytest.raises(ModelError, match="so it is") as caught:
            responses.model(reply, attempts=2).answer(conversation, max_tokens=9)
        return caught.value.kind, caught.value.retryable

    assert failed("server_error") == ("overloaded", True)
    assert failed("rate_limit_exceeded") == ("rate-limited", True)
    assert failed("invalid_prompt") == ("bad-request", False)
    assert failed("bio_policy") == ("refused", False)


def test_an_error_event_is_told(responses, conversation):
    reply = responses.api.stream([])
    event = {"type": "error", "code": "invalid_prompt", "message": "not like this", "param": None, "sequence_number": 1}
    reply.chunks = [f"event: error\ndata: {json.dumps(event)}\n\n".encode()]
    with pytest.raises(ModelError, match="not like this") as caught:
        responses.model(reply).answer(conversation, max_tokens=9, on_text=lambda _: None)
    assert caught.value.kind == "bad-request"
