"""Programs run stage by stage with compiled kernels: nearly as close to float64 as the same computation in torch."""

from __future__ import annotations

from importlib.resources import files

import pytest
from codasmith.gate.frame import frame_of
from codasmith.tasks import Workload, draw, oracle, program_tasks, unfused
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.launch import Kernel
from codasmith.templates.program import FINISH, run
from codasmith.templates.schedule import by_name

pytestmark = pytest.mark.gpu

PROGRAMS = program_tasks()
HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SIZES = {"M": 264, "D": 328, "F": 200, "K": 136, "N": 520}
SCHEDULE = by_name("128x128-pingpong-2x1")
STORAGE = ("bf16", "fp16")


def graphs_of(task):
    return task.read((HAND_WRITTEN / f"{task.name}.py").read_text())


@pytest.fixture(scope="module")
def kernels():
    """Everything these tests run, compiled at once: the futures by program, stage and dtype."""
    with Compiler() as compiler:
        futures = {}
        for task in PROGRAMS.values():
            for stage, graph in graphs_of(task).items():
                for storage in STORAGE:
                    made = generate(graph, frame_of(task.parts[stage], storage), SCHEDULE)
                    futures[task.name, stage, storage] = compiler.submit(made.source, made.signature)
        yield futures


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_compiled_kernels_agrees_with_its_reference(kernels, name, storage):
    task = PROGRAMS[name]
    sizes = {s: SIZES[s] for s in task.symbols}
    inputs = draw(task, Workload(sizes=sizes, storage=storage, family="normal", seed=0), "cuda")

    def execute(stage, values):
        if stage.kind == "finish":
            return {stage.writes[0]: FINISH[stage.formula](*(values[n] for n in stage.reads), **stage.constants)}
        compiled = kernels[name, stage.name, storage].result()
        assert compiled.ok, f"{stage.name}: {compiled.error}"
        kernel = Kernel(compiled.object, compiled.signature)
        outputs = kernel.outputs_like(values)
        for tensor in outputs.values():
            tensor.fill_(float("nan"))
        kernel(values, outputs)
        return outputs

    actual = run(task.program(graphs_of(task), sizes), inputs, execute)
    exact, rounded = oracle(task, inputs), unfused(task, inputs)
    for key, truth in exact.items():
        scale = truth.abs().max()
        bound = 2 * (rounded[key].double() - truth).abs().max() + 1e-3 * scale
        error = (actual[key].double() - truth).abs().max()
        assert error <= bound, f"{key}: {error:.2e} of {scale:.2e}, and {bound:.2e} is allowed"
