"""Programs run stage by stage with compiled kernels: as close to float64 as the gate's rule asks, twice the same."""

from __future__ import annotations

from importlib.resources import files

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.gate.tolerance import judge
from codasmith.tasks import Workload, draw, oracle, program_tasks, unfused
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.launch import Kernel
from codasmith.templates.program import launch, run
from codasmith.templates.schedule import by_name

pytestmark = pytest.mark.gpu

PROGRAMS = program_tasks()
HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SIZES = (
    {"M": 264, "D": 328, "F": 200, "K": 136, "N": 520, "S": 3},
    {"M": 77, "D": 1032, "F": 392, "K": 520, "N": 1544, "S": 9},
)
SCHEDULE = by_name("128x128-pingpong-2x1")
CASES = [(name, "bf16") for name in PROGRAMS] + [("mlp_swiglu", "fp16"), ("qkv_qknorm_rope_bwd", "fp16")]


def graphs_of(task):
    return task.read((HAND_WRITTEN / f"{task.name}.py").read_text())


@pytest.fixture(scope="module")
def kernels():
    """Everything these tests run, compiled at once: the futures by program, stage and dtype."""
    with Compiler() as compiler:
        futures = {}
        for name, storage in CASES:
            for stage, graph in graphs_of(PROGRAMS[name]).items():
                made = generate(graph, frame_of(PROGRAMS[name].parts[stage], storage), SCHEDULE)
                futures[name, stage, storage] = compiler.submit(made.source, made.signature)
        yield futures


@pytest.mark.parametrize("family", ["normal", "mixed"])
@pytest.mark.parametrize("sizes", SIZES, ids=["even", "odd"])
@pytest.mark.parametrize(("name", "storage"), CASES)
def test_a_program_of_compiled_kernels_agrees_with_its_reference(kernels, name, storage, sizes, family):
    task = PROGRAMS[name]
    sizes = {s: sizes[s] for s in task.symbols}
    family = "normal" if storage == "fp16" else family
    inputs = draw(task, Workload(sizes=sizes, storage=storage, family=family, seed=0), "cuda")

    def execute(stage, values):
        shapes = {n: task.everything[n] for n in stage.writes}
        outputs = {
            n: torch.full(t.size(sizes), float("nan"), dtype=t.torch_dtype(storage), device="cuda")
            for n, t in shapes.items()
        }
        if stage.kind == "gemm":
            compiled = kernels[name, stage.name, storage].result()
            assert compiled.ok, f"{stage.name}: {compiled.error}"
            Kernel(compiled.object, compiled.signature)(values, outputs)
        else:
            launch(stage, [values[n] for n in stage.reads], list(outputs.values()))
        return outputs

    program = task.program(graphs_of(task), sizes)
    actual, again = run(program, inputs, execute), run(program, inputs, execute)
    exact, plain = oracle(task, inputs), unfused(task, inputs)
    for key, truth in exact.items():
        assert torch.equal(actual[key], again[key]), f"{key} differs from run to run"
        found = judge(actual[key], truth, plain[key], task.outputs[key].torch_dtype(storage))
        assert found.ok, f"{key}: {found}"
