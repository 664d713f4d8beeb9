"""On a GPU that others use too: an honest kernel is never refused, and no verdict carries times that are theirs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from codasmith import verified_kernels
from codasmith.gate.pipeline import evaluate
from codasmith.tasks import Workload, load_task
from codasmith.templates.schedule import SCHEDULES

pytestmark = pytest.mark.gpu

SMALL = [Workload(sizes={"M": 2048, "N": 2048, "K": 2048})]
HONEST = (Path(verified_kernels.__file__).parent / "hand_written" / "rmsnorm_scale.py").read_text()
COMPANY = """
import random, sys, time, torch
a = torch.randn(4096, 4096, device="cuda").bfloat16()
while True:
    for _ in range(random.randint(1, 200)):
        a @ a
    torch.cuda.synchronize()
    print("busy", flush=True)
    time.sleep(random.random() * float(sys.argv[1]))
"""


def judged():
    how = {"schedules": SCHEDULES[:1], "workloads": SMALL, "compile_baseline": False, "rounds": 9}
    return evaluate(load_task("rmsnorm_scale"), HONEST, **how).verdict


@pytest.mark.parametrize("pause_s", ["0.1", "0.002"])
def test_beside_another_process_a_verdict_is_right_or_none(pause_s):
    alone = judged()
    assert alone.status == "passed", alone.finding or alone.note
    said = []
    with subprocess.Popen([sys.executable, "-c", COMPANY, pause_s], stdout=subprocess.PIPE, text=True) as company:
        try:
            assert company.stdout.readline() == "busy\n"
            until = time.monotonic() + 20
            while time.monotonic() < until:
                said.append(judged())
        finally:
            company.kill()
    for verdict in said:
        if verdict.status == "failed":
            assert "judge again when it is free" in verdict.note
            continue
        assert verdict.status == "passed", verdict.finding
        (row,) = verdict.timing["workloads"]
        assert 0.9 < row["tax"]["value"] < 1.15
        (timing,) = [s for s in verdict.stages if s.stage == "timing"]
        assert "other processes compute on this GPU" in timing.data["warning"]
    print([(v.status, v.note) for v in said])
