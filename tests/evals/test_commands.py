"""The real commands."""

import json

import pytest
from codasmith.agent.cli import app
from codasmith.evals import runs
from codasmith.evals.evalset import read_set
from codasmith.evals.hand_written import HandWritten
from typer.testing import CliRunner


def command(*words):
    return CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": "200"})


@pytest.fixture
def faked(monkeypatch, gate, dice):
    """Models and gate of the tests in the place of the real ones; no GPU is asked for."""
    monkeypatch.setattr(runs, "judging", lambda folder, storage, cpu_only, shapes, in_time: gate)
    monkeypatch.setattr(
        runs, "_make", lambda spec: lambda name, tier: HandWritten(tier) if name == "hand-written" else dice(name, 0.6)
    )
    monkeypatch.setattr("codasmith.gate.has_gpu", lambda: True)


ASK = (
    "eval",
    "--model",
    "a",
    "--model",
    "b",
    "--samples",
    2,
    "--budget",
    3,
    "--task",
    "linear_bias",
    "--task",
    "linear_lse",
)


def test_eval_ranks_the_models_and_says_where_the_report_is(tmp_path, faked):
    result = command(*ASK, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for words in (
        "pass@1",
        "speed-up, all tasks",
        "hand-written",
        "builtin:tracer",
        f"2 of its {len(read_set()[0].tasks)}",
        "report.html",
    ):
        assert words in result.stdout
    assert (tmp_path / "report.html").is_file() and len((tmp_path / "results.jsonl").read_text().splitlines()) == 14


def test_eval_in_json_is_one_document_and_report_gives_the_same_scores(tmp_path, faked):
    result = command(*ASK, "--out", tmp_path, "--json")
    document = json.loads(result.stdout)
    assert document["exit_code"] == 0 and document["unfinished"] == []
    assert [s["model"] for s in document["results"]["scores"]].count("a") == 1
    again = json.loads(command("evals", "report", tmp_path, "--json").stdout)
    assert again["results"] == document["results"]


def test_parts_made_apart_are_merged_and_scored(tmp_path, faked):
    for part in ("1/2", "2/2"):
        result = command(*ASK, "--shard", part, "--out", tmp_path / part[0])
        assert result.exit_code == 0, result.output
    result = command(*ASK, "--out", tmp_path / "whole")
    assert result.exit_code == 0, result.output
    result = command("evals", "merge", tmp_path / "1", tmp_path / "2", "--out", tmp_path / "joined", "--json")
    whole = json.loads((tmp_path / "whole" / "results.json").read_text())
    assert json.loads(result.stdout)["results"] == whole


def test_generated_sets_are_listed_and_run(tmp_path, faked):
    made = command("evals", "generate", "--seed", 3, "--n", 2, "--out", tmp_path / "set")
    assert "2 tasks are in" in made.stdout and "compose: 2 of 2: held_out_3_001" in made.stderr
    assert "held-out-3" in command("evals", "list", "--set", tmp_path / "set").stdout
    result = command("eval", "--set", tmp_path / "set", "--model", "a", "--samples", 1, "--out", tmp_path / "run")
    assert result.exit_code == 0 and "held-out" in result.stdout and "hand-written kernel" in result.stdout


def test_public_set_is_listed_with_how_many_tasks_there_are(public):
    result = command("evals", "list")
    assert f"{len(public.tasks)} tasks." in result.stdout and "quack.epilogue.library.rope_epi" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "--set", "nothing"), "no eval set 'nothing'"),
        (("eval", "--task", "nothing", "--cpu-only"), "has no task 'nothing'"),
        (("eval", "--model", "gpt-9", "--cpu-only"), "did you mean openai:gpt-9"),
        (("eval", "--samples", 0, "--cpu-only"), "--samples 0"),
        (("evals", "report", "nowhere"), "nowhere is not the folder of a run"),
        (("evals", "generate", "--seed", 1, "--n", 0, "--out", "x"), "--n 0 asks for no task"),
        (("evals", "generate", "--seed", 1, "--difficulty", 9, "--out", "x"), "--difficulty 9 is not known"),
        (("evals", "generate", "--seed", 1, "--out", "a_file"), "the folder a_file cannot be written (File exists)"),
        (("eval", "--cpu-only", "--out", "a_file"), "the run's folder a_file cannot be written (File exists)"),
        (("eval", "--cpu-only", "--out", "a_file/run"), "(Not a directory); name another one with --out"),
        (("eval", "--cpu-only", "--out", "/proc/none"), "the run's folder /proc/none cannot be written"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("mine")
    result = command(*words)
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output
