"""The short form of benchmarks/faults.py: one fault of each kind that is quick and needs no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
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


@pytest.mark.slow
def test_all_faults_that_need_no_gpu(tmp_path):
    done, outcomes = run(tmp_path, "--limit-s", "400")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({o["fault"] for o in outcomes}) >= 4
