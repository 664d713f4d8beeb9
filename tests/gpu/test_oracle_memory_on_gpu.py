"""The largest product beside a full arena: the oracle in blocks of rows, and what it takes."""

from __future__ import annotations

import pytest
import torch
from codasmith.gate.tolerance import judge_runs
from codasmith.tasks import Workload, catalogue, draw, unfused
from codasmith.tasks.blocks import pieces

pytestmark = pytest.mark.gpu

GIB = 2**30
DEVICE = "cuda"
SIZES = {"M": 16384, "N": 28672, "K": 2048}


def peak(work) -> float:
    """GiB allocated at most, beyond what was before."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    return (torch.cuda.max_memory_allocated() - before) / GIB


@pytest.mark.parametrize("name", ["gelu_bwd_bias_grad", "residual_rmsnorm_bwd_inplace", "geglu_bwd"])
def test_the_oracle_of_the_largest_product_takes_a_few_blocks(name):
    task = catalogue()[name]
    narrow = max(d.coefficient for t in task.everything.values() for d in t.dimensions if d.symbol == task.n.symbol)
    sizes = {**SIZES, str(task.n.symbol): SIZES["N"] // narrow}
    sizes = {symbol: sizes[symbol] for symbol in task.symbols}
    inputs = draw(task, Workload(sizes=sizes), DEVICE)
    rows: dict[str, int] = {}

    def compute():
        for output, _, values in pieces(task, inputs):
            rows[output] = rows.get(output, 0) + len(values)

    one = sizes["M"] * SIZES["N"] * 8 / GIB  # a tensor of the largest product in float64
    taken = peak(compute)
    print(f"{name}: {taken:.1f} GiB for the oracle, where one tensor of its product in float64 is {one:.1f} GiB")
    assert taken < 2.5 * one
    assert all(rows[n] == t.size(sizes)[0] for n, t in task.outputs.items())
    plain = unfused(task, inputs)
    found = {}
    taken = peak(lambda: found.update(judge_runs(task, inputs, {"": plain})[""]))
    print(f"{name}: {taken:.1f} GiB for oracle, unfused path and comparison")
    assert all(errors.ok for errors in found.values())
    assert taken < 30
