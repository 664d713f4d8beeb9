"""benchmarks/repeat.py: a series of judgements goes on where it stopped, and its spread is that of all of them."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import pytest
from codasmith import gate

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "repeat.py"


@pytest.fixture
def repeat(monkeypatch):
    spec = importlib.util.spec_from_file_location("repeat_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    taxes = iter([1.00, 1.02, 1.01, 1.03])

    def evaluate(task, source, *, workloads, **_):
        tax = next(taxes)
        ratio = {"value": tax, "low": tax - 0.01, "high": tax + 0.01}
        rows = [
            {"workload": w.model_dump(mode="json"), "tax": ratio, "over_eager": ratio, "bare": "cublas", "rounds": 9}
            | {"schedule": "128x128"}
            for w in workloads
        ]
        verdict = types.SimpleNamespace(status="passed", timing={"workloads": rows}, environment={"gpu": "NVIDIA H200"})
        return types.SimpleNamespace(verdict=verdict)

    monkeypatch.setattr(gate, "has_gpu", lambda: True)
    monkeypatch.setattr(gate, "evaluate", evaluate)
    return module


def run(module, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["repeat.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        module.main()
    return ended.value.code


def test_a_series_goes_on_where_it_stopped(repeat, monkeypatch, tmp_path):
    out = tmp_path / "repeat.jsonl"
    assert run(repeat, monkeypatch, "--times", "2", "--sizes", "4096", "--out", str(out)) == 0
    out.write_text(out.read_text() + '{"judgement": 3, "workl')  # a kill
    assert run(repeat, monkeypatch, "--times", "4", "--sizes", "4096", "--out", str(out)) == 0
    summary = json.loads(out.read_text().splitlines()[-1])
    assert summary["tax"] == [1.00, 1.02, 1.01, 1.03] and summary["tax_spread"] == pytest.approx(0.03 / 1.015, abs=1e-4)
    assert run(repeat, monkeypatch, "--times", "4", "--sizes", "4096", "--out", str(out)) == 0  # nothing is left to do
    assert json.loads(out.read_text().splitlines()[-2]) == {"environment": {"gpu": "NVIDIA H200"}}


def test_judgements_of_other_sizes_are_not_counted(repeat, monkeypatch, tmp_path):
    out = tmp_path / "repeat.jsonl"
    run(repeat, monkeypatch, "--times", "1", "--sizes", "8192", "--out", str(out))
    run(repeat, monkeypatch, "--times", "1", "--sizes", "4096", "--out", str(out))
    assert json.loads(out.read_text().splitlines()[-1])["tax"] == [1.02]


def test_judgements_of_another_machine_are_not_mixed_in(repeat, monkeypatch, tmp_path):
    out = tmp_path / "repeat.jsonl"
    run(repeat, monkeypatch, "--times", "1", "--sizes", "4096", "--out", str(out))
    out.write_text(out.read_text().replace("NVIDIA H200", "NVIDIA H100"))
    said = run(repeat, monkeypatch, "--times", "2", "--sizes", "4096", "--out", str(out))
    assert "another machine" in said and "NVIDIA H100" in said and len(out.read_text().splitlines()) == 3
