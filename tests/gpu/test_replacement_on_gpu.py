"""On a GPU: a runner that dies or misbehaves is replaced in time, and what comes after it is judged well."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from codasmith import verified_kernels
from codasmith.evals.attack_corpus import attacks
from codasmith.gate import contain
from codasmith.gate.pipeline import evaluate, session
from codasmith.tasks import Workload, load_task
from codasmith.templates.schedule import SCHEDULES

pytestmark = pytest.mark.gpu

WITHIN_S = 15.0
SMALL = [Workload(sizes={"M": 1024, "N": 1024, "K": 1024})]
HONEST = (Path(verified_kernels.__file__).parent / "hand_written" / "rmsnorm_scale.py").read_text()


def judged(source=HONEST, tier="closed", task="rmsnorm_scale"):
    how = {"schedules": SCHEDULES[:1], "workloads": SMALL, "compile_baseline": False, "rounds": 9}
    return evaluate(load_task(task), source, tier=tier, **how).verdict


@pytest.fixture(scope="module")
def usual():
    """Seconds that a judgement takes here when all is warm."""
    first = judged()
    assert first.status == "passed", first.finding or first.note
    began = time.monotonic()
    assert judged().status == "passed"
    return time.monotonic() - began


def children(parent):
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(stat.parent.name)
        except OSError:
            continue


def test_the_runner_is_contained_and_the_record_says_how(usual):
    (tune,) = [s for s in judged().stages if s.stage == "tune"]
    held = tune.data["runner"]
    assert set(contain.ASKED) <= set(held)
    assert bool(contain.lacking(held)) == ("warning" in tune.data)
    assert held["network"] is True or "warning" in tune.data


def test_killed_runners_are_replaced_in_time_and_blamed_on_nobody(usual):
    for process in list(children(session().referee.process.pid)):
        os.kill(process, signal.SIGKILL)
    began = time.monotonic()
    verdict = judged()
    assert verdict.status == "passed", verdict.finding or verdict.note
    assert time.monotonic() - began < usual + WITHIN_S


def test_a_killed_referee_is_replaced_in_time(usual):
    os.kill(session().referee.process.pid, signal.SIGKILL)
    began = time.monotonic()
    assert judged().status in ("passed", "failed")
    assert judged().status == "passed"
    assert time.monotonic() - began < 2 * usual + WITHIN_S


@pytest.mark.parametrize("name", ["c9_beyond_the_end", "f1_barrier"])
def test_after_a_bad_kernel_the_next_one_gets_a_healthy_gpu_in_time(usual, name, tmp_path):
    (attack,) = attacks([name])
    task = load_task(attack.task)
    how = {"schedules": SCHEDULES[:1], "compile_baseline": False}
    verdict = evaluate(task, attack.source(tmp_path / "mark"), tier=attack.tier, **how).verdict
    assert verdict.status == "refused", verdict.note
    began = time.monotonic()
    verdict = judged()
    assert verdict.status == "passed", verdict.finding or verdict.note
    assert time.monotonic() - began < usual + WITHIN_S
