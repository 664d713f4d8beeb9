"""What rounding between stages costs a program: every intermediate in its declared dtype stays within the gate's rule.

Each stage is computed in float64 from what was stored and then stored itself, as kernels do up to their float32
accumulators.  The reference rounds elsewhere (after the norm, not before it), so this is no matter of course.
"""

from importlib.resources import files

import pytest
import torch
from codasmith.gate.tolerance import judge
from codasmith.tasks import FAMILIES, Workload, cast, draw, oracle, program_tasks, unfused
from codasmith.templates.program import Program, interpret, run

PROGRAMS = program_tasks()
HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SIZES = {"M": 37, "D": 72, "F": 56, "K": 64, "N": 88, "S": 2}

WITHIN_FP16 = ("normal", "tiny", "sparse", "outliers")
"""Several products of large or whole numbers in a row leave float16's range: there the oracle is infinite too, and
which elements are is a matter of the last bit."""


def stored_between(task, sizes, inputs, storage):
    """The program's outputs, everything that passes between stages rounded to its declared dtype."""
    program = task.program(task.read((HAND_WRITTEN / f"{task.name}.py").read_text()), sizes)

    def execute(stage, values):
        alone = Program(inputs=tuple(dict.fromkeys(stage.reads)), outputs=stage.writes, stages=(stage,))
        answer = interpret(alone, cast(values, torch.float64))
        return {n: v.to(task.everything[n].torch_dtype(storage)) for n, v in answer.items()}

    return run(program, inputs, execute)


@pytest.mark.parametrize("storage", ["bf16", "fp16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rounding_between_stages_stays_within_the_gates_rule(name, storage):
    task = PROGRAMS[name]
    sizes = {s: SIZES[s] for s in task.symbols}
    for seed, family in enumerate(FAMILIES if storage == "bf16" else WITHIN_FP16):
        inputs = draw(task, Workload(sizes=sizes, storage=storage, family=family, seed=seed))
        actual = stored_between(task, sizes, inputs, storage)
        exact, plain = oracle(task, inputs), unfused(task, inputs)
        for key, truth in exact.items():
            found = judge(actual[key], truth, plain[key], task.outputs[key].torch_dtype(storage))
            assert found.ok, f"{family}: {key}: {found}"
