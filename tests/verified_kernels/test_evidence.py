"""What a record says of a verdict."""

from __future__ import annotations

from codasmith.gate.verdict import StageResult, Verdict
from codasmith.verified_kernels.evidence import best_of

SIZES = {"M": 4096, "N": 4096, "K": 4096}


def verdict(schedule, tune):
    row = {"workload": {"sizes": SIZES}, "schedule": schedule, "milliseconds": {"kernel": 1.0}}
    stage = StageResult(stage="tune", outcome="passed", data=tune)
    names = {"task": "t", "task_digest": "t", "candidate_digest": "c"}
    return Verdict(**names, status="passed", stages=(stage,), timing={"workloads": [row]})


def test_what_is_loaded_for_a_shape_is_what_its_time_was_taken_of():
    tune = {"milliseconds": {"M4096": {"128x128-pingpong-2x1": 0.9, "128x256-coop-2x1": 1.0}}}
    (best,) = best_of(verdict("128x256-coop-2x1", tune))
    assert (best.sizes, best.stage, best.schedule) == (SIZES, "", "128x256-coop-2x1")


def test_of_a_program_it_is_each_stages_schedule():
    found = best_of(verdict("up 128x192-pingpong-2x1, down 128x256-coop-2x1", {"stages": {"x": {}}}))
    assert [(b.stage, b.schedule) for b in found] == [("up", "128x192-pingpong-2x1"), ("down", "128x256-coop-2x1")]
