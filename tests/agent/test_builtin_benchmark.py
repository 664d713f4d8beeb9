"""The script that measures the built-in models: its shards, what it goes on from, and what it adds up."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from codasmith.agent.cli import app
from codasmith.agent.models.tracer import answer
from codasmith.gate.verdict import Verdict
from codasmith.tasks import catalogue, load_task
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def script():
    path = Path(__file__).parents[2] / "benchmarks" / "builtin.py"
    spec = importlib.util.spec_from_file_location("builtin_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(**more):
    given = {"tasks": [], "shard": "1/1", "out": None, "attempts": 6, "storage": "bf16", "journals": None}
    return SimpleNamespace(**given | more)


def test_shards_share_out_every_task_of_levels_1_to_3_once(script):
    shards = [script._chosen(options(shard=f"{i}/4")) for i in (1, 2, 3, 4)]
    wanted = {name for name, task in catalogue().items() if task.level <= 3}
    assert sorted(name for shard in shards for name in shard) == sorted(wanted)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("shard", ["5/4", "1", "a/b", "-1/2", "0/4"])
def test_a_shard_that_cannot_be_is_said(script, shard):
    with pytest.raises(SystemExit, match="is no part of a run"):
        script._chosen(options(shard=shard))


def test_tasks_that_the_file_has_are_not_measured_again(script, tmp_path):
    out = tmp_path / "rows.jsonl"
    out.write_text(json.dumps({"task": "linear_silu"}) + "\n")
    chosen = script._chosen(options(tasks=["linear_silu", "linear_bias"], out=out))
    assert chosen == ["linear_bias"]


def test_a_row_that_a_kill_cut_short_is_measured_again(script, tmp_path):
    out = tmp_path / "rows.jsonl"
    out.write_text(json.dumps({"task": "linear_silu"}) + '\n{"task": "linear_bi')
    asked = options(tasks=["linear_silu", "linear_bias"], out=out)
    assert script._chosen(asked) == ["linear_bias"]
    script.lines.append(out, {"task": "linear_bias"})
    assert script._chosen(asked) == [] and len(script._told([out])) == 2
    with pytest.raises(SystemExit, match=r"missing\.jsonl cannot be read as results of built-in models"):
        script._told([tmp_path / "missing.jsonl"])


def test_what_is_compiled_ahead_has_every_first_and_second_proposal_once(script):
    task = load_task("linear_swiglu_limit")
    sources = list(script._sources(task))
    assert sources[0] == answer(task) and sources[1] == script._hand_written(task)
    assert len(set(sources)) == len(sources) == 7, "the traced, the hand-written, and five that are rewritten"


def test_a_search_is_held_against_the_hand_written_kernel_judged_in_the_same_process(script, monkeypatch, tmp_path):
    judged = []

    def judge(task, source, **_):
        judged.append(source)
        tax = 1.10 if source == script._hand_written(task) else 1.30 - 0.05 * len(judged)
        verdict = Verdict(
            task=task.name, task_digest=task.digest, candidate_digest="c", status="passed", timing={"tax": tax}
        )
        return SimpleNamespace(verdict=verdict, source=source)

    monkeypatch.setattr(script, "_gate", lambda options: judge)
    row = script._measure(load_task("swiglu_bwd_pointwise"), options(attempts=3, journals=tmp_path))
    (journal,) = tmp_path.glob("*.jsonl")
    said = CliRunner().invoke(app, ["journal", "show", str(journal)]).stdout
    assert "builtin:search" in said and "1.150" in said and "3 attempts" in said
    assert judged[-1] == script._hand_written(load_task("swiglu_bwd_pointwise")), "none of the proposals is that kernel"
    assert (row["tracer_tax"], row["search_tax"], row["hand_tax"]) == pytest.approx((1.25, 1.15, 1.10))
    assert "gap +4.5 %" in script._line(row)


def test_a_hand_written_kernel_that_was_proposed_is_not_judged_twice(script, monkeypatch):
    judged = []

    def judge(task, source, **_):
        judged.append(source)
        verdict = Verdict(
            task=task.name, task_digest=task.digest, candidate_digest="c", status="passed", timing={"tax": 1.0}
        )
        return SimpleNamespace(verdict=verdict, source=source)

    monkeypatch.setattr(script, "_gate", lambda options: judge)
    row = script._measure(load_task("linear_bias"), options())
    assert len(judged) == 1 and row["same_as"] == 1 and row["hand_tax"] == 1.0


def test_the_share_is_of_all_tasks_and_not_of_those_that_were_timed(script):
    near = {"level": 2, "tracer": "passed", "search": "passed", "search_tax": 1.02, "hand_tax": 1.0, "best": 1}
    far = near | {"search_tax": 1.04, "best": 2}
    lost = {"level": 2, "tracer": "refused", "search": "refused"}
    text = script._summary("level 2", [near, far, lost])
    assert "3 tasks; solved by the tracer 2, by the search 2" in text
    assert "within 3 % of the hand-written kernel 1 of 2 (33 % of all)" in text and "better than the tracer 1" in text
