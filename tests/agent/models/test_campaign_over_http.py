"""A whole campaign from the command line against a local server: two questions over HTTP, what the second one tells,
and what the journal has of it."""

import json

from codasmith import gate
from codasmith.agent.cli import app
from codasmith.agent.journal import read
from typer.testing import CliRunner


def test_a_refusal_is_told_over_http_and_the_next_answer_ends_the_run(
    setting, code, fake_gate, key, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(vars(gate), "evaluate", fake_gate)
    monkeypatch.setattr(gate, "has_gpu", lambda: False)
    setting.wire.replies = [setting.api.stream([code("WRONG")]), setting.api.stream([code("right")])]
    options = ["--base-url", setting.api.base_url(setting.wire), "--journal", "run.jsonl", "--json"]
    if setting.api.provider == "openai":
        options += ["--api", setting.name]
    result = CliRunner().invoke(app, ["run", "linear_bias", "--model", f"{setting.api.provider}:tiny", *options])
    assert result.exit_code == 0, result.output
    assert setting.wire.paths == [setting.api.path] * 2

    first, second = (json.dumps(request) for request in setting.wire.requests)
    assert "o is off by 2." not in first and "o is off by 2." in second and "WRONG" in second

    events = read(tmp_path / "run.jsonl")[0]
    names = ["start", *["prompt", "answer", "verdict"] * 2, "stop"]
    assert [e["event"] for e in events] == names
    used = [e["usage"] for e in events if e["event"] == "answer"]
    assert [(u["input_tokens"], u["cached_tokens"], u["output_tokens"]) for u in used] == [(100, 60, 7)] * 2
    assert key not in (tmp_path / "run.jsonl").read_text()
