"""The picture beside docs/kernels.md counts every timed shape once, and from the best to the worst."""

import importlib.util
import json
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("chart", ROOT / "benchmarks" / "chart.py")
chart = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(chart)


def test_shares_count_what_is_no_worse():
    assert chart.steps([1.5, 1.0, 1.2, 1.1], False) == ([1.0, 1.1, 1.2, 1.5], [25, 50, 75, 100])
    assert chart.steps([1.5, 1.0], True) == ([1.5, 1.0], [50, 100])


def test_every_shape_is_of_one_kind_by_dtype_and_whether_it_is_a_programs():
    recording = ROOT / "benchmarks" / "results" / "h200-2026-11-29-gate.jsonl.xz"
    verdicts = [v for v in map(json.loads, chart.text(recording).splitlines()) if v["status"] == "admitted"]
    counted = Counter()
    for verdict in verdicts:
        level = chart.shipped()[verdict["task"]].level
        for row in verdict["timing"]["workloads"]:
            counted[row["workload"].get("storage", "bf16") + ", programs" * (level == 4)] += 1
    kinds = chart.by_kind(verdicts)
    assert {kind: len(rows) for kind, rows in kinds.items()} == counted
    for measure, _, _ in chart.PANELS.values():
        assert all(value is None or 0.2 < value < 5 for rows in kinds.values() for value in map(measure, rows))
