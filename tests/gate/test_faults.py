"""The short form of benchmarks/faults.py: one fault of each kind that is quick and needs no GPU."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


def run(tmp_path, *arguments):
    out = tmp_path / "faults.jsonl"
    command = [sys.executable, str(FAULTS), "--cpu", "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    return done, [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def test_nothing_is_lost_or_said_wrongly_when_processes_are_killed_and_the_disk_is_full(tmp_path):
    done, outcomes = run(tmp_path, "--only", "writer", "full_disk_keeping", "--each", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {o["fault"] for o in outcomes} == {"full disk while a record is written", "registry writer killed"}
    assert all(o["wrong"] == "" for o in outcomes)
    assert "2 of 2 faults, 0 with something lost or wrong; well again after" in done.stdout

    done, again = run(tmp_path, "--only", "writer", "full_disk_keeping", "--each", "1")
    assert done.returncode == 0 and again == outcomes and "2 of 2 faults, 0 with" in done.stdout


@pytest.fixture(scope="module")
def faults():
    spec = importlib.util.spec_from_file_location("faults", FAULTS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("gpu", [True, False])
def test_the_parts_hold_every_fault_once_and_of_each_kind_alike(faults, gpu):
    parts = [faults.planned(gpu, shard=f"{part}/4") for part in (1, 2, 3, 4)]
    plan = faults.ON_GPU if gpu else faults.ON_CPU
    assert Counter(name for part in parts for name, _ in part) == plan
    assert len({fault for part in parts for fault in part}) == sum(plan.values()) == (40 if gpu else 14)
    for name in plan:
        counts = [sum(kind == name for kind, _ in part) for part in parts]
        assert max(counts) - min(counts) <= 1


def line(number, **changes):
    return {
        "fault": "runner killed", "said": "passed", "well_s": 2.0 + number, "wrong": "", "kind": "runner",
        "number": number, "gpu": True, "seconds": 5.0, "environment": {"gpu": "NVIDIA H200"},
    } | changes  # fmt: skip


def test_several_files_are_summed_up_the_newest_line_of_each_fault(faults, tmp_path):
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    files[0].write_text(json.dumps(line(1, wrong="a record was lost")) + "\n" + '{"cut sho')
    files[1].write_text("\n".join(map(json.dumps, [line(1), line(2)])))
    lines = faults.kept(files)
    said, well = faults.summary(lines, 2, True)
    assert well and "2 of 2 faults, 0 with something lost or wrong; well again after 4.0 s at most (runner" in said
    assert "in 10 s together, on NVIDIA H200" in said
    assert not faults.summary(lines, 3, True)[1]
    said, well = faults.summary([line(1, wrong="a record was lost")], 1, True)
    assert not well and "WRONG: runner killed: a record was lost" in said


def test_a_fault_that_outlasts_the_limit_is_given_up_and_not_recorded(faults, tmp_path, monkeypatch, capsys):
    class Hanging:
        gpu, given_up = False, threading.Event()

        def give_up(self):
            self.given_up.set()

        def runner(self):
            return faults.Outcome("runner killed", "passed", 1.0)

        def hang(self):
            assert self.given_up.wait(30)
            raise faults.GivenUp

    monkeypatch.setattr(faults, "GRACE_S", 0.3)
    monkeypatch.setattr(faults, "_well", lambda _: "checked")
    started = time.monotonic()
    lines = faults.run(Hanging(), [("runner", 1), ("hang", 1), ("runner", 2)], tmp_path / "out", 1, 0.3, {})
    assert time.monotonic() - started < 10
    assert [(one["kind"], one["number"]) for one in lines] == [("runner", 1)]
    assert [json.loads(text) for text in (tmp_path / "out").read_text().splitlines()] == lines
    assert "the time is up: 2 of 3 were not tried" in capsys.readouterr().out


@pytest.mark.slow
def test_all_faults_that_need_no_gpu(tmp_path):
    done, outcomes = run(tmp_path, "--limit-s", "400")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({o["fault"] for o in outcomes}) >= 4
