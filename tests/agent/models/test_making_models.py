"""Models by their names."""

from __future__ import annotations

import subprocess
import sys

import pytest
from codasmith.agent.models import ModelError, Patience, make_model


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ("gpt-5.4", "did you mean openai:gpt-5.4?"),
        ("claude-opus-5", "did you mean anthropic:claude-opus-5?"),
        ("antropic:claude-opus-5", "did you mean anthropic:claude-opus-5?"),
        ("OpenAI:tiny", "did you mean openai:tiny?"),
        ("tracer", "did you mean builtin:tracer?"),
        ("bultin:tracer", "did you mean builtin:tracer?"),
        ("builtin:trace", "are builtin:tracer and builtin:search"),
        ("search", "did you mean builtin:search?"),
        ("mistral:large", "write one of anthropic:..., openai:..., command:..., replay:..., builtin:..."),
        ("", "write one of"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(spec, advice):
    with pytest.raises(ModelError) as caught:
        make_model(spec)
    assert caught.value.kind == "unknown-model"
    assert advice in str(caught.value) and repr(spec) in str(caught.value)


@pytest.mark.parametrize("spec", ["openai:", "anthropic: ", "command:", "replay:", "builtin:"])
def test_a_name_without_a_model_gets_an_example(spec):
    with pytest.raises(ModelError, match=f"names no model; write {spec.strip(': ')}:"):
        make_model(spec)


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("builtin:tracer", {"base_url": "http://x"}, "builtin: has no option 'base_url'; it takes none"),
        ("command:cat", {"effort": "high"}, "command: has no option 'effort'; it takes timeout"),
        (
            "openai:tiny",
            {"thinking": 2048},
            "openai: has no option 'thinking'; it takes api, base_url, key_env, effort",
        ),
        ("openai:tiny", {"api": "completions"}, "use 'responses' or 'chat'"),
        ("openai:tiny", {"timeout": 0}, "above 0"),
        ("command:cat", {"timeout": float("nan")}, "above 0"),
    ],
)
def test_an_option_that_does_not_fit_is_told(spec, options, words):
    with pytest.raises(ModelError) as caught:
        make_model(spec, **options)
    assert caught.value.kind == "bad-request"
    assert words in str(caught.value)


def test_options_that_are_none_are_left_out():
    model = make_model("command:cat", base_url=None, effort=None, timeout=None, patience=None)
    assert (model.name, model.timeout) == ("command:cat", 600.0)


def test_models_are_named_as_they_were_asked_for():
    patience = Patience(attempts=1)
    names = ["anthropic:tiny", "openai:org/tiny:7b", "command:cat -u", "builtin:tracer"]
    assert [make_model(name).name for name in names] == names
    assert make_model("openai:org/tiny:7b", patience=patience).patience is patience


def test_no_sdk_is_imported_before_it_is_wanted():
    code = (
        "import sys, codasmith.agent.models as m; m.make_model('command:cat'); m.make_model('builtin:tracer');"
        "print([n for n in ('openai', 'anthropic', 'torch') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_tracer_wants_a_task():
    with pytest.raises(ModelError, match="prepare"):
        make_model("builtin:tracer").answer([], max_tokens=1)


def test_the_key_may_lie_in_a_variable_of_another_name(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-usual-one")
    monkeypatch.setenv("TEAM_KEY", "sk-of-the-team")
    assert make_model("openai:tiny", key_env="TEAM_KEY").endpoint.key.get_secret_value() == "sk-of-the-team"
    assert make_model("openai:tiny").endpoint.key.get_secret_value() == "sk-the-usual-one"


def test_a_key_given_where_its_variable_is_wanted_is_refused_and_not_repeated():
    with pytest.raises(ModelError) as caught:
        make_model("anthropic:tiny", key_env="sk-ant-secret")
    assert "give the name of the one that holds the key" in str(caught.value)
    assert "sk-ant-secret" not in str(caught.value)
