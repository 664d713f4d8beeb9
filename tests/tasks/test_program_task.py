"""Programs of the catalogue: their stages, with hand-written epilogues, compute what plain PyTorch does."""

from importlib.resources import files

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.primitives import ReadError
from codasmith.tasks import TaskError, Tensor, cast, draw, oracle, program_tasks, unfused
from codasmith.tasks.program_task import finish, product, program_task
from codasmith.templates.generate import generate
from codasmith.templates.program import interpret
from codasmith.templates.schedule import SCHEDULES

PROGRAMS = program_tasks()
HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SIZES = {"M": 19, "D": 40, "F": 24, "K": 32, "N": 56, "S": 3}

LAYERS = (
    "mlp_swiglu",
    "mlp_gelu",
    "rmsnorm_mlp_swiglu",
    "linear_cross_entropy",
    "qkv_qknorm_rope",
    "rmsnorm_qkv_rope",
    "llama_block",
)

each = pytest.mark.parametrize("name", PROGRAMS)


def source_of(name):
    return (HAND_WRITTEN / f"{name}.py").read_text()


def drawn(task):
    workload = task.correctness_workloads()[0]
    sizes = {s: SIZES[s] for s in task.symbols}
    return sizes, draw(task, workload.model_copy(update={"sizes": sizes}))


def answer(name, inputs, sizes):
    task = PROGRAMS[name]
    return interpret(task.program(task.read(source_of(name)), sizes), inputs)


def test_the_layers_that_train_are_there_each_with_epilogues():
    assert set(PROGRAMS) == {*LAYERS, *(f"{n}_bwd" for n in LAYERS), "linear_cross_entropy_forward"}
    assert set(PROGRAMS) == {f.name.removesuffix(".py") for f in HAND_WRITTEN.iterdir() if f.name.endswith(".py")}
    assert {t.level for t in PROGRAMS.values()} == {4}
    assert len({t.digest for t in PROGRAMS.values()}) == len(PROGRAMS)


@each
def test_the_stages_agree_with_the_reference(name):
    task = PROGRAMS[name]
    sizes, inputs = drawn(task)
    got, exact = answer(name, cast(inputs, torch.float64), sizes), oracle(task, inputs)
    assert set(got) == set(exact)
    for key, value in exact.items():
        assert value.std() > 0.01
        torch.testing.assert_close(got[key], value, rtol=1e-9, atol=1e-9)


@each
def test_the_reference_runs_in_the_storage_dtype_near_the_exact_answer(name):
    task = PROGRAMS[name]
    _, inputs = drawn(task)
    exact, rounded = oracle(task, inputs), unfused(task, inputs)
    errors = {k: ((rounded[k].double() - v).abs().max() / v.abs().max()).item() for k, v in exact.items()}
    assert all(rounded[k].dtype == task.outputs[k].torch_dtype("bf16") for k in exact)
    assert 1e-7 < max(errors.values()) < 0.05, errors


@each
def test_every_product_has_a_kernel(name):
    task = PROGRAMS[name]
    for stage, graph in task.read(source_of(name)).items():
        problem = task.parts[stage]
        made = generate(graph, frame_of(problem, "bf16"), SCHEDULES[0])
        assert made.signature.outputs == tuple(problem.outputs)


def test_a_wrong_epilogue_gives_another_answer():
    task = PROGRAMS["mlp_swiglu"]
    sizes, inputs = drawn(task)
    wrong = source_of("mlp_swiglu").replace("silu(gate) * lift", "gate * silu(lift)")
    got = interpret(task.program(task.read(wrong), sizes), cast(inputs, torch.float64))
    assert (got["y"] - oracle(task, inputs)["y"]).abs().max() > 0.1


def test_a_candidate_without_a_stage_or_with_other_names_is_told_so():
    task = PROGRAMS["mlp_swiglu"]
    with pytest.raises(ReadError, match="No function is called down"):
        task.read(source_of("mlp_swiglu").replace("def down", "def dawn"))
    with pytest.raises(TaskError, match="epilogue down returns out; return y"):
        task.read(source_of("mlp_swiglu").replace('"y"', '"out"'))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((finish("f", "mean", reads=("x",), writes="y", d=1),), "has no product"),
        ((product("p", "x @ v.T", writes=("y",)),), "stage p reads 'v', which is no input"),
        ((product("p", "x @ w.T", writes=("q",)),), "writes 'q', which is declared neither"),
        ((product("p", "x @ w.T", writes=("x",)),), "writes 'x', which exists already"),
        ((product("p", "x @ w.T", writes=("h",)),), "no stage writes the output 'y'"),
        ((product("p", "x @ w.T", writes=("y", "k")),), "k has shape .K., which does not follow"),
    ],
)
def test_stages_that_do_not_fit_are_refused(stages, message):
    with pytest.raises(TaskError, match=message):

        @program_task(
            x=Tensor("M K"),
            w=Tensor("N K"),
            stages=stages,
            between={"h": Tensor("M N"), "k": Tensor("K")},
            out={"y": Tensor("M N")},
        )
        def f(x, w): ...
