"""What timed turns are held against, on a GPU: the inputs drawn anew are those that lie in the shared block."""

from __future__ import annotations

import pytest
import torch
from codasmith.gate import buffers
from codasmith.gate.arena import Arena
from codasmith.tasks import Workload, load_task
from codasmith.tasks.workload import FAMILIES

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["residual_partial_rmsnorm", "rmsnorm_swiglu", "rmsnorm_cross_entropy"])
def test_inputs_drawn_anew_are_those_that_lie_in_the_shared_block_to_the_bit(name, family):
    task = load_task(name)
    workload = Workload(sizes=task.default_sizes(1024), family=family, seed=5)
    arena = Arena(2**30, torch.device("cuda", torch.cuda.current_device()))
    for held in buffers.place(arena, task, workload, 3):
        for _ in range(3):
            held.freshen()
        torch.cuda.synchronize()
        for given, value in held.drawn().items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(buffers.bits(held.inputs[given]), buffers.bits(value.contiguous())), given
        assert set(held.moved) == set(held.moving)
