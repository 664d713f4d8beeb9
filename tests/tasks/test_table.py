"""docs/kernels.md says what the recordings say."""

import copy
import importlib.util
import json
from pathlib import Path

import pytest
from codasmith.verified_kernels import store

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)
RECORDING = ROOT / "benchmarks" / "results" / "h200-2026-11-29-gate.jsonl.xz"


@pytest.fixture(scope="module")
def verdicts():
    return [v for v in map(json.loads, table.text(RECORDING).splitlines()) if v["status"] == "admitted"]


def cells(page, kernel, heading):
    part = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    names = [c.strip() for c in lines[0].split("|")[1:-1]]
    found = [dict(zip(names, (c.strip() for c in line.split(" | ")), strict=False)) for line in lines[1:]]
    return [c for c in found if c[names[0]].lstrip("| ") == kernel]


def library_row(verdict, row, over, share):
    kernel, cublas = row["milliseconds"]["kernel"], row["milliseconds"]["cublas"]
    return {
        "task": verdict["task"],
        "library": "quack.gemm",
        "workload": row["workload"],
        "environment": verdict["environment"],
        "milliseconds": {"library": kernel * over, "kernel": kernel, "cublas": cublas},
        "over_library": {"value": over, "low": over - 0.01, "high": over + 0.01},
        "library_over_cublas": {"value": share, "low": share, "high": share},
    }


def test_the_document_is_the_page_of_the_present_recordings(monkeypatch, capsys):
    libraries = RECORDING.with_name("h200-2026-11-29-libraries.jsonl")
    monkeypatch.setattr("sys.argv", ["table.py", str(RECORDING), str(libraries)])
    table.main()
    assert capsys.readouterr().out == (ROOT / "docs" / "kernels.md").read_text()


def test_one_row_a_kernel_with_geometric_means_and_one_a_shape(verdicts):
    one = next(v for v in verdicts if v["task"] == "linear_lse")
    page = table.page([one], [], ["recording"])
    (row,) = cells(page, "linear_lse", "By kernel")
    taxes = [r["tax"]["value"] for r in one["timing"]["workloads"]]
    assert row["tax"].startswith(f"{(taxes[0] * taxes[1] * taxes[2]) ** (1 / 3):.2f} [")
    assert row["formula"] == "logits = x @ w.T; lse = log(sum(exp(logits))) over each row."
    details = cells(page, "linear_lse", "By shape")
    assert [d["ms"] for d in details] == [f"{r['milliseconds']['kernel']:.3f}" for r in one["timing"]["workloads"]]
    first = one["timing"]["workloads"][0]
    share = first["milliseconds"]["kernel"] / first["unfused_roofline_ms"]
    assert details[0]["unfused"].startswith(f"{share:.2f} [") and details[0]["library"] == "-"


def test_baselines_slow_by_their_own_measure_are_marked(verdicts):
    one = copy.deepcopy(next(v for v in verdicts if v["task"] == "linear_lse"))
    rows = one["timing"]["workloads"]
    for number, row in enumerate(rows):
        row["milliseconds"]["compile"] = row["unfused_roofline_ms"] * (1.29, 1.31, 1.31)[number]
    page = table.page([one], [], ["recording"])
    assert [d["compile"].endswith("\\*") for d in cells(page, "linear_lse", "By shape")] == [False, True, True]
    assert cells(page, "linear_lse", "By kernel")[0]["compile"].endswith("\\*")


def test_the_fastest_library_stands_beside_the_kernel_and_a_slow_one_is_marked(verdicts):
    one = next(v for v in verdicts if v["task"] == "linear_lse")
    first, second, _ = one["timing"]["workloads"]
    roofline = second["unfused_roofline_ms"] / second["milliseconds"]["cublas"]
    libraries = [
        library_row(one, first, 1.2, 1.0),
        library_row(one, first, 1.1, 1.0),
        library_row(one, second, 1.5, 1.31 * roofline),
        {"task": "linear_lse", "library": "other", "workload": first["workload"], "failed": "it is not installed",
         "environment": one["environment"]},
    ]  # fmt: skip
    page = table.page([one], libraries, ["recording"])
    found = [d["library"] for d in cells(page, "linear_lse", "By shape")]
    assert found[0] == "1.10 [1.09, 1.11] quack.gemm" and found[1].endswith("quack.gemm\\*") and found[2] == "-"
    assert "other on linear_lse: it is not installed" in page


def test_every_shipped_schedule_that_spills_is_named_those_of_programs_by_their_stage(verdicts, tmp_path, monkeypatch):
    monkeypatch.setenv("CODASMITH_HOME", str(tmp_path))
    page = table.page(verdicts, [], ["recording"])
    lines = page.split("## Spilled registers\n")[1].split("\n## ")[0].splitlines()
    cells_of = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("| ")][1:]
    named = {tuple(c[:3]): c[3] for c in cells_of}
    assert named["linear_cross_entropy", "closed, bf16", "project 128x192-pingpong-2x1"] == "52"
    by_key = {table.key(v): v for v in verdicts}
    for entry in store.scan()[0]:
        for evidence in entry.record.evidence:
            verdict = by_key[entry.record.task, entry.record.tier, evidence.storage]
            compiled = next(s["data"] for s in verdict["stages"] if s["stage"] == "compile")
            for shipped in evidence.objects:
                found = compiled["stages"][shipped.stage] if shipped.stage else compiled
                if found["schedules"][shipped.schedule]["spill_bytes"]:
                    where = entry.record.task, f"{entry.record.tier}, {evidence.storage}"
                    assert (*where, f"{shipped.stage} {shipped.schedule}".strip()) in named


def test_of_two_verdicts_the_later_counts_and_refused_ones_do_not(tmp_path, verdicts, capsys, monkeypatch):
    one = next(v for v in verdicts if v["task"] == "linear_lse")
    later = copy.deepcopy(one)
    later["timing"]["workloads"][0]["milliseconds"]["kernel"] = 99.0
    refused = {**copy.deepcopy(one), "status": "refused"}
    file = tmp_path / "r.jsonl"
    file.write_text("\n".join(json.dumps(v) for v in (one, later, refused)))
    monkeypatch.setattr("sys.argv", ["table.py", str(file)])
    table.main()
    assert cells(capsys.readouterr().out, "linear_lse", "By shape")[0]["ms"] == "99.000"
