"""The three HTTP APIs, each through its real SDK and a real connection."""

from __future__ import annotations

import json
import logging
import socket
import traceback

import pytest
from codasmith.agent.models import ModelError, make_model
from codasmith.agent.models.patience import AGAIN


def fails(model, conversation, on_text=None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.answer(conversation, max_tokens=500, on_text=on_text)
    return caught.value


def cannot_be_made(setting, **options) -> ModelError:
    with pytest.raises(ModelError) as caught:
        setting.model(**options)
    return caught.value


def names_no_secret(error: BaseException, key: str) -> bool:
    """Neither the exception, nor what it leads to, nor a traceback with the values of all locals shows the key."""
    whole = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    seen = [str(error), repr(error), repr(error.args), repr(vars(error)), whole]
    return error.__cause__ is None and error.__context__ is None and not any(key in text for text in seen)


def test_an_answer_in_one_piece(setting, conversation):
    model = setting.model(setting.api.whole("relu it is"))
    answer = model.answer(conversation, max_tokens=500)
    assert (answer.text, answer.stop_reason, answer.model) == ("relu it is", "end", "tiny-2026-01-01")
    assert 0 < answer.seconds < 5
    assert setting.wire.paths == [setting.api.path]


def test_an_answer_as_it_is_written(setting, conversation):
    heard: list[str] = []
    model = setting.model(setting.api.stream(["re", "lu\n", "ü"]))
    answer = model.answer(conversation, max_tokens=500, on_text=heard.append)
    assert heard == ["re", "lu\n", "ü"]
    assert (answer.text, answer.stop_reason, answer.model) == ("relu\nü", "end", "tiny-2026-01-01")
    assert setting.wire.requests[0]["stream"] is True


@pytest.mark.parametrize("streamed", [False, True])
def test_usage_and_cost_are_accounted(setting, conversation, streamed, tmp_path, monkeypatch):
    prices = tmp_path / "prices.toml"
    prices.write_text('[models."tiny"]\ninput = 2.0\ncached = 0.5\nwrite = 3.0\noutput = 10.0\n')
    monkeypatch.setenv("CODASMITH_PRICES", str(prices))
    model = setting.model(setting.api.stream(["a"]) if streamed else setting.api.whole("a"))
    usage = model.answer(conversation, max_tokens=500, on_text=(lambda _: None) if streamed else None).usage
    written = setting.api.written
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens) == (
        100,
        60,
        written,
        7,
    )
    assert usage.dollars == pytest.approx(((40 - written) * 2.0 + 60 * 0.5 + written * 3.0 + 7 * 10.0) / 1e6)
    assert usage.known


def test_list_prices_do_not_hold_on_another_server(setting, conversation):
    setting.wire.replies = [setting.api.whole()]
    spec = "anthropic:claude-opus-5" if setting.name == "anthropic" else "openai:gpt-5.4"
    options = {} if setting.name == "anthropic" else {"api": setting.name}
    model = make_model(spec, base_url=setting.api.base_url(setting.wire), **options)
    assert model.answer(conversation, max_tokens=5).usage.dollars is None


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_at_the_limit_is_marked(setting, conversation, streamed):
    api = setting.api
    model = setting.model(api.stream(["ha"], stop=api.length) if streamed else api.whole("ha", stop=api.length))
    answer = model.answer(conversation, max_tokens=3, on_text=(lambda _: None) if streamed else None)
    assert (answer.text, answer.stop_reason) == ("ha", "length")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_refusal_is_an_error_that_tells_its_cost(setting, conversation, streamed):
    api = setting.api
    model = setting.model(api.stream(["no"], stop=api.refusal) if streamed else api.whole("no", stop=api.refusal))
    error = fails(model, conversation, (lambda _: None) if streamed else None)
    assert (error.kind, error.retryable) == ("refused", False)
    assert "tiny refused to answer" in str(error)
    assert (error.usage.input_tokens, error.usage.output_tokens) == (100, 7)
    assert len(setting.wire.requests) == 1


def test_a_missing_key_is_told_before_anything_is_asked(setting, monkeypatch):
    variable = f"{setting.api.provider.upper()}_API_KEY"
    monkeypatch.setenv(variable, "")
    with pytest.raises(ModelError, match=f"set {variable}") as caught:
        setting.model(base_url=None)
    assert caught.value.kind == "missing-key"


def test_a_local_server_needs_no_key(setting, conversation, monkeypatch):
    monkeypatch.delenv(f"{setting.api.provider.upper()}_API_KEY")
    assert setting.model(setting.api.whole("hi")).answer(conversation, max_tokens=5).text == "hi"


def test_the_address_may_come_from_the_environment(setting, conversation, monkeypatch):
    monkeypatch.setenv(f"{setting.api.provider.upper()}_BASE_URL", setting.api.base_url(setting.wire))
    assert setting.model(setting.api.whole("hi"), base_url=None).answer(conversation, max_tokens=5).text == "hi"


@pytest.mark.parametrize("key", ["sk-with a space", "sk-with-\u201cquotes\u201d", "sk-two\nlines"])
def test_a_key_that_cannot_be_one_is_told_without_showing_it(setting, monkeypatch, key):
    monkeypatch.setenv(f"{setting.api.provider.upper()}_API_KEY", key)
    error = cannot_be_made(setting)
    assert error.kind == "bad-key" and "copy it again" in str(error)
    assert names_no_secret(error, key)


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host:99999/v1"])
def test_a_base_url_that_is_no_address_is_told(setting, url):
    with pytest.raises(ModelError, match="write it whole") as caught:
        setting.model(base_url=url)
    assert url in str(caught.value)


def test_a_wrong_key_of_another_variable_is_told_by_its_name(setting, conversation, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-of-the-team")
    error = fails(setting.model(setting.api.error(401, "no"), key_env="TEAM_KEY"), conversation)
    assert "does not accept the key in TEAM_KEY" in str(error)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_wrong_key_is_not_tried_again_and_never_shown(setting, conversation, key, caplog, streamed):
    caplog.set_level(logging.DEBUG)
    model = setting.model(setting.api.error(401, f"Incorrect API key provided: {key}"))
    error = fails(model, conversation, (lambda _: None) if streamed else None)
    assert (error.kind, error.retryable) == ("bad-key", False)
    assert f"{setting.api.provider.upper()}_API_KEY" in str(error)
    assert key in "".join(setting.wire.headers[0].values())
    assert len(setting.wire.requests) == 1
    assert names_no_secret(error, key)
    assert key not in repr(model) + repr(vars(model))
    assert caplog.records and not any(key in record.getMessage() + repr(record.args) for record in caplog.records)


def test_a_key_that_a_server_repeats_is_struck_out(setting, conversation, key):
    error = fails(setting.model(setting.api.error(400, f"bad header {key}\nsecond line")), conversation)
    assert error.kind == "bad-request"
    assert "bad header [secret] second line" in str(error)
    assert names_no_secret(error, key)


def test_a_retry_after_in_seconds_is_honoured(setting, conversation):
    limited = setting.api.error(429, "slow down", headers={"Retry-After": "7"})
    model = setting.model(limited, setting.api.whole("then"))
    assert model.answer(conversation, max_tokens=5).text == "then"
    assert len(setting.slept) == 1 and 7 <= setting.slept[0] <= 7.5


def test_a_retry_after_as_a_date_is_honoured(setting, conversation, soon):
    limited = setting.api.error(429, "slow down", headers={"Retry-After": soon})
    model = setting.model(limited, setting.api.whole("then"))
    assert model.answer(conversation, max_tokens=5).text == "then"
    assert len(setting.slept) == 1 and 15 <= setting.slept[0] <= 20.5


def test_a_retry_after_beyond_our_patience_ends_it_at_once(setting, conversation):
    error = fails(setting.model(setting.api.error(429, "slow", headers={"Retry-After": "3600"})), conversation)
    assert (error.kind, error.retryable, error.retry_after) == ("rate-limited", True, 3600)
    assert "asks to wait 3600 s" in str(error)
    assert setting.slept == [] and len(setting.wire.requests) == 1


def test_without_a_retry_after_the_waits_are_random_and_bounded(setting, conversation):
    error = fails(setting.model(setting.api.error(429, "slow down"), attempts=4), conversation)
    assert (error.kind, error.retryable) == ("rate-limited", True)
    assert "slow down" in str(error) and str(error).endswith("(asked 4 times)")
    assert len(setting.wire.requests) == 4 and len(setting.slept) == 3
    assert all(0 <= wait <= bound for wait, bound in zip(setting.slept, (0.5, 1.0, 2.0), strict=True))
    assert len(set(setting.slept)) == 3


def test_all_waits_together_are_bounded(setting, conversation):
    limited = setting.api.error(429, "slow down", headers={"Retry-After": "10"})
    fails(setting.model(limited, attempts=50, wait=35.0), conversation)
    assert len(setting.slept) == 3 and sum(setting.slept) <= 35


@pytest.mark.parametrize("status", [409, 500, 502, 503, 504, 529])
def test_a_server_in_trouble_is_asked_again(setting, conversation, status):
    model = setting.model(setting.api.error(status, "busy"), setting.api.whole("then"))
    assert model.answer(conversation, max_tokens=5).text == "then"
    assert len(setting.wire.requests) == 2


@pytest.mark.parametrize("status", [500, 529])
def test_a_server_that_stays_in_trouble_is_overloaded(setting, conversation, status):
    error = fails(setting.model(setting.api.error(status, "busy"), attempts=2), conversation)
    assert (error.kind, error.retryable) == ("overloaded", True)
    assert f"HTTP {status}" in str(error)


@pytest.mark.parametrize(("status", "kind"), [(400, "bad-request"), (403, "bad-key"), (413, "bad-request")])
def test_a_request_that_is_at_fault_is_not_repeated(setting, conversation, status, kind):
    error = fails(setting.model(setting.api.error(status, "prompt is too long")), conversation)
    assert (error.kind, error.retryable) == (kind, False)
    assert "prompt is too long" in str(error)
    assert len(setting.wire.requests) == 1


def test_an_empty_account_is_not_asked_again(setting, conversation):
    error = fails(setting.model(setting.api.error(429, "pay first", "insufficient_quota")), conversation)
    assert not error.retryable and "no credit left" in str(error)
    assert len(setting.wire.requests) == 1


def test_an_unknown_model_is_named(setting, conversation):
    error = fails(setting.model(setting.api.error(404, "no such model", "model_not_found")), conversation)
    assert (error.kind, error.retryable) == ("unknown-model", False)
    assert "'tiny'" in str(error) and "127.0.0.1" in str(error)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_slow_server_is_asked_twice(setting, conversation, streamed):
    reply = setting.api.stream(["a"]) if streamed else setting.api.whole()
    reply.delay = 2.0
    error = fails(setting.model(reply, timeout=0.15), conversation, (lambda _: None) if streamed else None)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert len(setting.wire.requests) == 2 == error.usage.broken


def test_a_stream_that_trickles_does_not_last_for_ever(setting, conversation):
    reply = setting.api.stream(["a"] * 40, pause=0.05)
    heard: list[str] = []
    error = fails(setting.model(reply, timeout=0.4, attempts=1), conversation, heard.append)
    assert error.kind == "timeout"
    assert 0 < len(heard) < 20


@pytest.mark.parametrize("end", ["reset", "silent"])
def test_a_stream_that_breaks_once_is_asked_from_the_start(setting, conversation, end):
    heard: list[str] = []
    broken = setting.api.stream(["half", "more"], last=3 if setting.name != "anthropic" else 5, end=end)
    model = setting.model(broken, setting.api.stream(["whole"]))
    answer = model.answer(conversation, max_tokens=5, on_text=heard.append)
    assert (answer.text, answer.usage.broken) == ("whole", 1)
    assert heard == ["half", "more", AGAIN, "whole"]


def test_a_refusal_after_a_stream_that_broke_tells_both_costs(setting, conversation):
    broken = setting.api.stream(["half", "more"], last=3 if setting.name != "anthropic" else 5, end="reset")
    model = setting.model(broken, setting.api.stream(["no"], stop=setting.api.refusal))
    error = fails(model, conversation, lambda _: None)
    assert (error.kind, error.usage.broken) == ("refused", 1) and error.usage.input_tokens > 0


@pytest.mark.parametrize("end", ["reset", "silent"])
def test_a_stream_that_breaks_twice_is_cut_off(setting, conversation, end):
    broken = setting.api.stream(["half", "more"], last=3 if setting.name != "anthropic" else 5, end=end)
    error = fails(setting.model(broken, attempts=9), conversation, lambda _: None)
    assert (error.kind, error.retryable) == ("cut-off", True)
    assert len(setting.wire.requests) == 2


def test_a_web_page_in_the_place_of_a_stream_is_told_as_a_wrong_address_and_asked_once(setting, conversation):
    page = setting.api.whole()
    page.chunks, page.kind = [b"<html>Welcome</html>"], "text/html"
    error = fails(setting.model(page), conversation, lambda _: None)
    assert error.kind == "other" and "is not in the format of" in str(error) and "check the base URL" in str(error)
    assert len(setting.wire.requests) == 1


def test_an_answer_in_one_piece_that_breaks_is_asked_again(setting, conversation):
    broken = setting.api.whole()
    broken.chunks, broken.end = [broken.chunks[0][:40]], "reset"
    model = setting.model(broken, setting.api.whole("whole"))
    assert model.answer(conversation, max_tokens=5).text == "whole"


def test_an_error_inside_a_stream_is_asked_again(setting, conversation):
    heard: list[str] = []
    model = setting.model(setting.api.broken(), setting.api.stream(["whole"]))
    assert model.answer(conversation, max_tokens=5, on_text=heard.append).text == "whole"
    assert heard == ["half", AGAIN, "whole"]
    error = fails(setting.model(setting.api.broken(), attempts=2), conversation, lambda _: None)
    assert error.kind == "overloaded"


def test_a_server_that_is_not_there_is_unreachable(setting, conversation, key, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://user:hunter22@127.0.0.1:{port}"
    with pytest.raises(ModelError, match="_BASE_URL instead") as seen:  # it would be in the journal
        setting.model(base_url=address)
    assert "hunter22" not in str(seen.value)
    monkeypatch.setenv(f"{setting.api.provider.upper()}_BASE_URL", address)
    error = fails(setting.model(base_url=None, attempts=2), conversation)
    assert (error.kind, error.retryable) == ("unreachable", True)
    assert f"127.0.0.1:{port}" in str(error)
    assert names_no_secret(error, key) and names_no_secret(error, "hunter22")


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b"[1, 2]", b'"text"', b"{not json", b""])
def test_an_answer_in_another_format_is_told(setting, conversation, body):
    reply = setting.api.whole()
    reply.chunks = [body] if body else []
    reply.kind = "text/html" if body.startswith(b"<") else "application/json"
    error = fails(setting.model(reply), conversation)
    assert "not in the format" in str(error) and "base URL" in str(error)


def test_an_exception_of_the_listener_is_its_own(setting, conversation):
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    model = setting.model(setting.api.stream(["a", "b"]))
    with pytest.raises(KeyboardInterrupt):
        model.answer(conversation, max_tokens=5, on_text=interrupt)
    assert len(setting.wire.requests) == 1


def test_a_long_answer_in_one_piece_is_allowed(setting, conversation):
    model = setting.model(setting.api.whole("ok"), timeout=600.0)
    assert model.answer(conversation, max_tokens=100_000).text == "ok"


def test_the_journal_can_hold_an_answer(setting, conversation):
    answer = setting.model(setting.api.whole("ok")).answer(conversation, max_tokens=5)
    assert type(answer).model_validate(json.loads(answer.model_dump_json())) == answer
