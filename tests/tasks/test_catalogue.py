"""Every task of the catalogue: its reference runs, all it is given matters, no trivial answer is near."""

import re

import pytest
import torch
from codasmith.tasks import catalogue, draw, legal, oracle, unfused, validate

TASKS = catalogue()
FIRST_TEN = {
    "linear_bias_gelu",
    "linear_alpha_beta_residual",
    "linear_softcap",
    "rmsnorm_scale",
    "linear_swiglu",
    "rmsnorm_swiglu",
    "linear_rope",
    "residual_partial_rmsnorm",
    "linear_lse",
    "swiglu_bwd",
}
PAPER = FIRST_TEN | {"rmsnorm_rope", "rmsnorm_cross_entropy", "linear_cross_entropy_partial", "residual_rmsnorm_bwd"}

each = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def ordinary(task):
    return task.correctness_workloads()[0]


def test_catalogue_holds_the_papers_kernels_at_three_levels():
    assert set(TASKS) >= PAPER
    assert {t.level for t in TASKS.values()} == {1, 2, 3}


@each
def test_task_is_named_like_its_file_and_documented(task):
    assert task.path.stem == task.name
    assert task.doc
    module_doc = task.path.read_text().split('"""')[1]
    for name, tensor in task.outputs.items():
        assert re.search(rf"\b{name}\b", module_doc), f"{name} is not explained"
        assert f"[{', '.join(map(str, tensor.dimensions))}]" in module_doc


@each
def test_reference_runs_in_float64_and_storage_and_its_answers_vary(task):
    validate(task)
    inputs = draw(task, ordinary(task))
    exact, rounded = oracle(task, inputs), unfused(task, inputs)
    for name, value in exact.items():
        assert value.dtype == torch.float64
        assert rounded[name].dtype == task.outputs[name].torch_dtype("bf16")
        assert value.std() > 0.1
        error = (rounded[name].double() - value).abs().max()
        assert 0 < error < 0.1 * value.abs().max()


@each
@pytest.mark.parametrize("storage", ["bf16", "fp16"])
def test_every_family_gives_finite_answers(task, storage):
    for workload in task.correctness_workloads(storage):
        if max(workload.sizes.values()) > 700:
            continue
        for name, value in unfused(task, draw(task, workload)).items():
            assert torch.isfinite(value).all(), f"{name} in {workload.family}"


@each
def test_every_input_matters(task):
    inputs = draw(task, ordinary(task))
    exact, rounded = oracle(task, inputs), unfused(task, inputs)
    for name, value in inputs.items():
        other = value.flip(0) if isinstance(value, torch.Tensor) else value * 0.5
        changed = oracle(task, {**inputs, name: other})
        assert any(
            (changed[k] - exact[k]).abs().max() > 5 * (rounded[k].double() - exact[k]).abs().max() for k in exact
        ), f"{name} changes nothing"


@each
def test_trivial_answers_are_far_outside_the_error_budget(task):
    inputs = draw(task, ordinary(task))
    exact, rounded = oracle(task, inputs), unfused(task, inputs)
    budget = {k: 2 * (rounded[k].double() - exact[k]).abs().max() for k in exact}

    def misses(name, guess):
        return (guess.double() - exact[name]).abs().max() > 5 * budget[name]

    for name, value in exact.items():
        assert misses(name, torch.zeros_like(value))
        assert misses(name, torch.ones_like(value))
        assert misses(name, value.mean().expand_as(value))
        assert misses(name, value.roll(1, -1))
        for other in inputs.values():
            if isinstance(other, torch.Tensor) and other.shape == value.shape:
                assert misses(name, other)
    a, b = inputs[task.gemm.a].double(), inputs[task.gemm.b].double()
    bare = (a.T if task.gemm.a_transposed else a) @ (b.T if task.gemm.b_transposed else b)
    assert any(value.shape != bare.shape or misses(name, bare) for name, value in exact.items())


@each
def test_timed_workloads_are_legal_and_few(task):
    assert 3 <= len(task.workloads()) <= 6
    for workload in task.workloads():
        assert legal(task, workload.sizes) is None
        assert workload.sizes["M"] >= 2048


def test_the_papers_shapes_and_those_of_real_models_are_timed():
    cubes, widths = set(), set()
    for task in TASKS.values():
        for workload in task.workloads():
            sides = tuple(d.size(workload.sizes) for d in (task.m, task.n, task.k))
            cubes |= {sides[0]} if len(set(sides)) == 1 else set()
            widths |= {*sides[1:], *workload.sizes.values()}
    assert cubes == {2048, 4096, 8192}
    assert widths >= {12288, 32768}  # the paper's
    assert widths >= {14336, 6144, 128256, 151936, 3584, 256000, 2880, 21504, 7168, 256, 1600, 1152, 4304, 1280, 5120}
