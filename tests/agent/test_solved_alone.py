"""The script that says, from a run of the evals, what the built-in models solve alone."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from codasmith.evals.evalset import read_set
from codasmith.evals.rows import AttemptRow, Row, Timed
from codasmith.evals.run_folder import RunFolder, RunSpec

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("solved_alone", ROOT / "benchmarks" / "solved_alone.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sample(model, task, level, *taxes, status="passed"):
    """Its best attempt is the one with the least tax."""
    tax = min(taxes, default=None)
    timed = Timed(
        workload="M4096", schedule="s", milliseconds={"kernel": tax or 0}, tax=tax or 0, baseline="eager", speedup=1
    )
    return Row(
        **{"model": model, "tier": "closed", "task": task, "task_digest": "d", "level": level, "family": "f"},
        **{"sample": 1, "status": status, "ended": "attempts", "tax": tax, "timed": (timed,) if taxes else ()},
        best=taxes.index(tax) + 1 if taxes else 1,
        attempts=tuple(AttemptRow(number=n + 1, status=status, tax=t) for n, t in enumerate(taxes)),
    )


@pytest.fixture
def run(tmp_path):
    """Two parts of a run: one task is solved and near, one far, one wrong, and the rest were not finished."""
    given = [
        *(sample("hand-written", "linear_silu", 1, 1.05), sample("builtin:tracer", "linear_silu", 1, 1.10)),
        sample("builtin:search", "linear_silu", 1, 1.10, 1.04),
        *(sample("hand-written", "linear_bias", 1, 1.01), sample("builtin:tracer", "linear_bias", 1, 1.05)),
        sample("builtin:search", "linear_bias", 1, 1.05),
        *(sample("hand-written", "linear_rope", 2, 1.02), sample("builtin:tracer", "linear_rope", 2, 1.02)),
        sample("hand-written", "linear_lora", 2, 1.02),
        *(sample(m, "linear_lora", 2, status="refused") for m in ("builtin:tracer", "builtin:search")),
    ]
    for n in (1, 2):
        folder = RunFolder(tmp_path / str(n))
        digest = read_set()[0].digest
        spec = RunSpec(
            **{"version": "0", "set": "coda-epilogue-v1", "set_digest": digest, "models": ("builtin:search",)},
            **{"samples": 1, "attempts": 2, "target_tax": 1.02, "cpu_only": False, "shard": f"{n}/2"},
        )
        with folder:
            folder.open(spec)
            for row in given[n - 1 :: 2]:
                folder.add(row)
    return tmp_path


def test_what_was_not_finished_counts_as_not_solved_and_is_named(script, run, monkeypatch, capsys):
    def printed(*arguments):
        monkeypatch.setattr(sys, "argv", ["solved_alone.py", *map(str, arguments)])
        script.main()
        return capsys.readouterr().out

    said = printed(run / "1", run / "2", "--out", run / "rows.jsonl")
    levels = [entry.level for entry in read_set()[0].tasks]
    one, two = levels.count(1), levels.count(2)
    assert f"level 1: solved 2 of {one} (" in said and f"tax 1 of {one} (6 %), 0 of them with that very kernel" in said
    assert f"level 2: solved 1 of {two} (4 %)" in said and f"tax 1 of {two} (4 %), 1 of them with" in said
    assert "level 3: solved 0 of" in said
    assert "  linear_bias: tax 1.050, hand-written 1.010\n" in said
    assert "  linear_rope: not finished by builtin:search\n" in said and "  linear_lora: not solved\n" in said
    assert "  geglu_bwd: not finished by builtin:tracer, builtin:search, hand-written\n" in said
    assert "search: finished 3 tasks, proposed a rewrite in 1, and it was faster in 1; of 2 tasks" in said
    assert "it brought 1 within them\n  linear_silu: 1.100 -> 1.040\n" in said
    assert printed(run / "rows.jsonl") == said, "what was written says the same"
    assert len((run / "rows.jsonl").read_text().splitlines()) == sum(level < 4 for level in levels)


def test_the_recording_is_of_the_published_run_and_the_documentation_says_the_same(
    script, monkeypatch, tmp_path, capsys
):
    (recorded,) = (ROOT / "benchmarks" / "results").glob("h200-*-builtin.jsonl")
    rows = [json.loads(line) for line in recorded.read_text().splitlines()]
    assert {r["task"] for r in rows} == {entry.name for entry in read_set()[0].tasks if entry.level < 4}
    published = ROOT / "docs" / "results" / "evals-h200"
    monkeypatch.setattr(sys, "argv", ["solved_alone.py", str(published), "--out", str(tmp_path / "again.jsonl")])
    script.main()
    assert (tmp_path / "again.jsonl").read_bytes() == recorded.read_bytes()
    printed, page = capsys.readouterr().out, (ROOT / "docs" / "agent.md").read_text()
    for level in (1, 2, 3):
        told = next(line for line in printed.splitlines() if line.startswith(f"level {level}:"))
        tasks, *counts = re.findall(r"(\d+) of (\d+) (\(\d+ %\))", told)
        solved, near = [f"{count} {share}" for count, _, share in (tasks, *counts)]
        same = re.search(r"(\d+) of them", told)[1]
        assert f"| {level} | {tasks[1]} | {solved} | {near} | {same} |" in page
    for name, first, then in re.findall(r"  (\w+): ([\d.]+) -> ([\d.]+), intervals apart", printed):
        assert f"`{name}` {first} to {then}" in page


def test_what_holds_no_row_is_one_sentence(script, monkeypatch, tmp_path):
    other = tmp_path / "notes.md"
    other.write_text("# Notes\n")
    for named, why in ((other, "holds no task's row"), (tmp_path / "none", "is not the folder of a run")):
        monkeypatch.setattr(sys, "argv", ["solved_alone.py", str(named)])
        with pytest.raises(SystemExit, match=why):
            script.main()
