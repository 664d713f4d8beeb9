"""Recorded journals as models."""

from __future__ import annotations

import json

import pytest
from codasmith.agent.models import Message, ModelError, Usage, make_model, prompt_digest

FIRST = [Message(role="user", content="one")]
SECOND = [Message(role="user", content="two")]


def line(text: str, messages=None, **more) -> str:
    digest = {"prompt_digest": prompt_digest(messages)} if messages else {}
    return json.dumps({"kind": "answer", "text": text} | digest | more)


@pytest.fixture
def journal(tmp_path):
    def write(*lines: str, end: str = "\n") -> str:
        path = tmp_path / "journal.jsonl"
        path.write_text("\n".join(lines) + end, encoding="utf-8")
        return f"replay:{path}"

    return write


def test_answers_come_in_their_order_with_their_usage(journal):
    usage = {"input_tokens": 9, "cached_tokens": 4, "output_tokens": 2, "dollars": 0.25}
    spec = journal(
        json.dumps({"kind": "start"}),
        line("a", FIRST, usage=usage, model="openai:tiny", stop_reason="length"),
        json.dumps({"kind": "verdict", "text": "not an answer"}),
        line("b\n", SECOND),
    )
    model = make_model(spec)
    heard: list[str] = []
    first = model.answer(FIRST, max_tokens=1, on_text=heard.append)
    second = model.answer(SECOND, max_tokens=1, on_text=heard.append)
    assert (first.text, first.model, first.stop_reason, first.usage) == ("a", "openai:tiny", "length", Usage(**usage))
    assert (second.text, second.usage.known) == ("b\n", False)
    assert heard == ["a", "b\n"]
    assert model.differences == [] and model.name == spec


def test_the_word_event_is_read_as_well(journal):
    spec = journal(json.dumps({"event": "answer", "text": "a"}))
    assert make_model(spec).answer(FIRST, max_tokens=1).text == "a"


def test_another_prompt_is_reported_and_answered(journal):
    model = make_model(journal(line("a", FIRST), line("b", FIRST), line("c")))
    assert [model.answer(SECOND if n == 1 else FIRST, max_tokens=1).text for n in range(3)] == ["a", "b", "c"]
    assert model.differences == [2]


def test_a_journal_that_runs_out_says_so(journal):
    model = make_model(journal(line("a")))
    model.answer(FIRST, max_tokens=1)
    with pytest.raises(ModelError, match="holds 1 answers, and all have been given") as caught:
        model.answer(FIRST, max_tokens=1)
    assert not caught.value.retryable


def test_a_line_that_was_cut_short_is_left_out_and_named(journal):
    model = make_model(journal(line("a"), line("b")[:12], line("c"), '{"kind": "ans', end=""))
    assert [model.answer(FIRST, max_tokens=1).text for _ in range(2)] == ["a", "c"]
    assert [problem.split(" of ")[0] for problem in model.problems] == ["line 2", "line 4"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelError, match="No such file") as caught:
        make_model(f"replay:{tmp_path / 'none.jsonl'}")
    assert caught.value.kind == "bad-request"


@pytest.mark.parametrize("lines", [[], ["hello"], ['{"kind": "start"}'], ["[1]", "3"]])
def test_a_file_without_answers_is_told(journal, lines):
    with pytest.raises(ModelError, match="holds no answer"):
        make_model(journal(*lines))


@pytest.mark.parametrize(
    ("record", "field"),
    [({}, "text"), ({"text": 3}, "text"), ({"text": "a", "usage": {"input_tokens": "many"}}, "usage")],
)
def test_an_answer_that_is_none_is_named_by_its_line(journal, record, field):
    spec = journal("", line("a"), json.dumps({"kind": "answer"} | record))
    with pytest.raises(ModelError, match=f"line 3 .*{field}"):
        make_model(spec)


def test_a_digest_tells_apart_roles_and_boundaries():
    def digest(*turns):
        return prompt_digest([Message(role=role, content=content) for role, content in turns])

    digests = [
        digest(("user", "ab")),
        digest(("system", "ab")),
        digest(("user", "a"), ("user", "b")),
        digest(("user", "a\nb")),
        digest(),
    ]
    assert len(set(digests)) == 5
    assert digest(("user", "ü")) == digest(("user", "ü"))
