"""Each hand-written epilogue is the task's reference, seen from the accumulator."""

from importlib.resources import files

import pytest
import torch
from codasmith.primitives import evaluate, read
from codasmith.tasks import accumulator, cast, catalogue, draw, from_kernel, oracle, to_kernel

TASKS = catalogue()
SOURCES = {
    f.name.removesuffix(".py"): f.read_text()
    for f in files("codasmith.verified_kernels.hand_written").iterdir()
    if f.name.endswith(".py") and f.name != "__init__.py"
}


def answer(task, source, inputs):
    """What the epilogue gives, in the task's layout."""
    wide = cast(inputs, torch.float64)
    operands = {k: to_kernel(task, k, wide[k]) if isinstance(wide[k], torch.Tensor) else wide[k] for k in task.operands}
    graph = read(source, list(task.operands.values()))
    outputs = evaluate(graph, accumulator(task, wide), operands)
    answers = {k: from_kernel(task, k, v) for k, v in outputs.items()}
    return {k: wide[k] + v if k in task.accumulates else v for k, v in answers.items()}


def test_every_task_has_an_epilogue_and_every_epilogue_a_task():
    assert set(SOURCES) == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_epilogue_agrees_with_the_oracle(name):
    task = TASKS[name]
    for workload in task.correctness_workloads()[:3]:
        inputs = draw(task, workload)
        got, exact = answer(task, SOURCES[name], inputs), oracle(task, inputs)
        assert set(got) == set(exact)
        for key, value in exact.items():
            torch.testing.assert_close(got[key], value, rtol=1e-9, atol=1e-9 * float(value.abs().max()))


@pytest.mark.parametrize("name", TASKS)
def test_epilogue_uses_the_accumulator_and_every_operand(name):
    graph = read(SOURCES[name], list(TASKS[name].operands.values()))
    assert graph.uses_accumulator
    assert {o.name for o in graph.used_operands} == set(TASKS[name].operands)


def test_comparison_notices_swapped_lanes():
    task = TASKS["rmsnorm_swiglu"]
    swapped = SOURCES["rmsnorm_swiglu"].replace("silu(gate) * up", "gate * silu(up)")
    inputs = draw(task, task.correctness_workloads()[0])
    assert (answer(task, swapped, inputs)["o"] - oracle(task, inputs)["o"]).abs().max() > 0.1
