"""The picture beside docs/kernels.md counts every timed shape once, and from the best to the worst."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest
from codasmith.tasks import shipped, shipped_task

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("chart", ROOT / "benchmarks" / "chart.py")
chart = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(chart)
kinds = sys.modules["kinds"]


def test_shares_count_what_is_no_worse():
    assert chart.steps([1.5, 1.0, 1.2, 1.1], False) == ([1.0, 1.1, 1.2, 1.5], [25, 50, 75, 100])
    assert chart.steps([1.5, 1.0], True) == ([1.5, 1.0], [50, 100])


@pytest.fixture(scope="module")
def verdicts():
    return chart.admitted(chart.recorded([ROOT / "benchmarks" / "results" / "h200-2026-11-29-gate.jsonl.xz"]))


def test_every_shape_is_of_one_kind_by_dtype_and_whether_it_is_a_programs(verdicts):
    counted = Counter()
    for verdict in verdicts:
        for row in verdict["timing"]["workloads"]:
            program = shipped_task(verdict["task"]).level == 4
            counted[row["workload"].get("storage", "bf16") + ", programs" * program] += 1
    kinds = {kind: chart.rows_of(found) for kind, found in chart.by_kind(verdicts).items()}
    assert {kind: len(rows) for kind, rows in kinds.items()} == counted
    for measure, _, _ in chart.PANELS.values():
        assert all(value is None or 0.2 < value < 5 for rows in kinds.values() for value in map(measure, rows))


def test_a_kind_that_was_never_recorded_before_has_a_column_of_its_own(verdicts):
    program = next(v for v in verdicts if v["task"] in shipped() and shipped()[v["task"]].level == 4)
    rows = [{**row, "workload": {**row["workload"], "storage": "fp16"}} for row in program["timing"]["workloads"]]
    found = chart.by_kind([{**program, "timing": {**program["timing"], "workloads": rows}}])
    assert list(found) == ["fp16, programs"] and kinds.table(found)[0] == "| geometric means | fp16, programs |"


def test_the_readme_says_what_the_recording_says(verdicts):
    said = (ROOT / "README.md").read_text()
    assert "\n".join(kinds.table(chart.by_kind(verdicts))) in said
    assert all(line.split()[1] in said for line in kinds.slower(verdicts))


@pytest.mark.parametrize("name", kinds.PAPER)
def test_the_kernels_of_the_paper_are_timed_at_its_shapes(name):
    task = shipped()[name]
    timed = {tuple(d.size(w.sizes) for d in (task.m, task.n, task.k)) for w in task.workloads()}
    assert kinds.papers_shapes(name) <= timed


def test_the_tax_at_the_papers_shapes_counts_those_alone(verdicts):
    lines = kinds.at_the_papers_shapes(verdicts)
    assert [line.split()[0] for line in lines] == ["bf16", "fp16", "fp8"]
    row = {"workload": {"sizes": {"M": 2048, "N": 6144, "K": 2048}, "storage": "bf16"}, "tax": {"value": 1.5}}
    other = {"workload": {"sizes": {"M": 4096, "N": 4096, "K": 4096}, "storage": "bf16"}, "tax": {"value": 9.0}}
    made = {"task": "linear_rope", "tier": "closed", "timing": {"workloads": [row, other]}}
    assert kinds.at_the_papers_shapes([made]) == ["bf16 tax 1.500 over 1 shapes: 1.500 at 2048 (1)"]
