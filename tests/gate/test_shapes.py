"""The sizes that are drawn while judging: legal, small, different each time, for every task."""

from __future__ import annotations

from random import Random

import pytest
from codasmith.gate.shapes import drawn
from codasmith.tasks import catalogue, draw, legal, oracle
from codasmith.tasks.load import program_tasks

TASKS = {**catalogue(), **program_tasks()}


@pytest.mark.parametrize("name", TASKS)
def test_drawn_sizes_are_legal_and_small_and_differ(name):
    task = TASKS[name]
    made = drawn(task, "bf16", 8, Random(3))
    assert len(made) == 8
    assert all(legal(task, w.sizes) is None for w in made)
    assert len({tuple(w.sizes.values()) for w in made}) >= 6
    assert len({w.family for w in made}) > 2
    own = task.correctness_workloads("bf16")
    for tensor in (*task.tensors.values(), *task.outputs.values()):
        most = max(max(tensor.size(w.sizes), default=1) for w in own)
        assert all(max(tensor.size(w.sizes), default=1) <= most + 2048 for w in made)


def test_the_reference_computes_on_what_is_drawn():
    task = TASKS["rmsnorm_swiglu"]
    (workload,) = drawn(task, "bf16", 1, Random(5))
    assert list(oracle(task, draw(task, workload))) == ["o"]
