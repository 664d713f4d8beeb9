"""Programs as operators: an object a stage in the registry, one launch of all stages, the gradient by the twin."""

from __future__ import annotations

import warnings
from importlib.resources import files
from types import SimpleNamespace

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.gate.verdict import STAGES, StageResult, Verdict
from codasmith.primitives import evaluate
from codasmith.tasks import TaskError, Tensor, Workload, load_task, program_tasks
from codasmith.tasks.layout import to_kernel
from codasmith.tasks.program_task import product, program_task
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import (
    AdmissionError,
    FallbackWarning,
    admit,
    find,
    load,
    recheck,
    runner,
)
from codasmith.verified_kernels.twin import pair

HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
FIRST, SECOND = SCHEDULES[:2]
SMALL, LARGE = {"M": 24, "D": 32, "F": 40}, {"M": 512, "D": 32, "F": 40}
HERE = {"gpu": "NVIDIA H200", "driver": "580.159.04", "cuda": "13.0"}


def graphs_of(name):
    return load_task(name).read((HAND_WRITTEN / f"{name}.py").read_text())


def evaluation(name, folder, *, without=""):
    """What the gate returns of a program that passed; each stage has two schedules."""
    task, graphs = load_task(name), graphs_of(name)
    objects, signatures = {}, {}
    for stage, part in task.parts.items():
        for schedule in SCHEDULES[:2]:
            key = f"{stage}.{schedule.name}"
            if key.startswith(without or "-"):
                continue
            objects[key] = folder / f"{name}-{key}.so"
            objects[key].write_bytes(b"\x7fELF" + f"{name}{key}".encode() * 50)
            signatures[key] = generate(graphs[stage], frame_of(part, "bf16"), schedule).signature
    label = Workload(sizes=SMALL).label
    stages = {label: {stage: {FIRST.name: 0.5, SECOND.name: 0.75} for stage in task.parts}}
    chains = {n.name: ", ".join(f"{stage} {n.name}" for stage in task.parts) for n in (FIRST, SECOND)}
    data = {"tune": {"milliseconds": {label: {"another chain": 1.0}}, "stages": stages}}
    rows = [
        {"workload": Workload(sizes=s).model_dump(), "schedule": chains[n.name], "milliseconds": {"kernel": 1.0}}
        for s, n in ((SMALL, FIRST), (LARGE, SECOND))
    ]
    verdict = Verdict(
        task=name,
        task_digest=task.digest,
        candidate_digest="c" * 64,
        status="passed",
        stages=tuple(StageResult(stage=s, outcome="passed", data=data.get(s, {})) for s in STAGES),
        environment=HERE,
        timing={"tax": 1.05, "workloads": rows},
    )
    source = (HAND_WRITTEN / f"{name}.py").read_text()
    return SimpleNamespace(
        **{"verdict": verdict, "source": source, "task": task, "objects": objects, "signatures": signatures},
        **{"graph": None, "graphs": graphs, "tier": "closed", "storage": "bf16"},
    )


@pytest.fixture
def launched(monkeypatch):
    """Kernels that compute their epilogue in float32 on the host; a list of what was launched, and how."""
    calls = []
    stages = {part.name: (part, stage, task) for task in program_tasks().values() for stage, part in task.parts.items()}

    class Kernel:
        def __init__(self, path, signature):
            self.signature = signature
            self.part, self.stage, task = stages[signature.task]
            self.graph = graphs_of(task.name)[self.stage]

        def bound(self, inputs):
            assert {n: tuple(t.shape) for n, t in inputs.items()}  # what is not there yet has its shape
            return self.launch

        def launch(self, values):
            calls.append(f"{self.stage} {self.signature.schedule.name}")
            inputs = {n: v.float() for n, v in zip(self.signature.inputs, values, strict=True)}
            gemm = self.part.gemm
            a, b = inputs[gemm.a], inputs[gemm.b]
            acc = (a.T if gemm.a_transposed else a) @ (b.T if gemm.b_transposed else b)
            operands = {n: inputs[n] for n in self.part.operands}
            found = evaluate(self.graph, to_kernel(self.part, "acc", acc), operands)
            return tuple(found[n].to(self.part.outputs[n].torch_dtype("bf16")) for n in self.signature.outputs)

    monkeypatch.setattr(runner.template, "Kernel", Kernel)
    monkeypatch.setattr(runner.template, "refuse", lambda signature, inputs: None)
    monkeypatch.setattr(runner, "_no_hopper", lambda device: None)
    monkeypatch.setattr(recheck, "surroundings", lambda device: HERE)
    return calls


def drawn(sizes, requires_grad=False):
    generator = torch.Generator().manual_seed(1)
    shapes = {"x": ("M", "D"), "w_up": (2 * sizes["F"], "D"), "w_down": ("D", "F")}
    made = {}
    for name, shape in shapes.items():
        size = [s if isinstance(s, int) else sizes[s] for s in shape]
        made[name] = (torch.randn(size, generator=generator) * size[-1] ** -0.5 * 2).bfloat16()
        made[name].requires_grad_(requires_grad)
    return made


def close(actual, expected, share=0.02):
    assert actual.shape == expected.shape
    error = (actual.double() - expected.double()).abs().max()
    assert error <= share * expected.abs().max(), f"{error} of {expected.abs().max()}"


def test_an_entry_holds_an_object_for_each_stage_and_schedule(homes):
    entry = admit(evaluation("mlp_swiglu", homes), load_task("mlp_swiglu"), author="hand-written")
    record = find("mlp_swiglu").record
    assert {(o.stage, o.schedule) for o in record.objects} == {
        (stage, s.name) for stage in ("up", "down") for s in (FIRST, SECOND)
    }
    assert {(b.stage, b.schedule) for b in record.evidence[0].best} == {(o.stage, o.schedule) for o in record.objects}
    seen, _ = record.evidence[0].workloads
    assert {t.schedule: t.milliseconds.value for t in seen.timings} == {
        ", ".join(f"{stage} {FIRST.name}" for stage in ("up", "down")): 1.0,
        "another chain": 1.0,
        **{f"{stage}.{FIRST.name}": 0.5 for stage in ("up", "down")},
        **{f"{stage}.{SECOND.name}": 0.75 for stage in ("up", "down")},
    }
    assert {"kernel.py", "task.py", "graphs.json"} == set(record.files)
    assert "x @ w_up.T, o @ w_down.T" in record.domain and "schedules" not in record.domain
    assert entry.library(record.objects[0]).startswith(b"\x7fELF")


def test_a_stage_without_an_object_is_not_admitted(homes):
    with pytest.raises(AdmissionError, match="stage down has no compiled object"):
        admit(evaluation("mlp_swiglu", homes, without="down"), load_task("mlp_swiglu"), author="hand-written")


@pytest.mark.parametrize(("sizes", "schedule"), [(SMALL, FIRST), (LARGE, SECOND)])
def test_one_call_runs_every_stage_with_the_schedule_of_the_nearest_shape(homes, launched, sizes, schedule):
    admit(evaluation("mlp_swiglu", homes), load_task("mlp_swiglu"), author="hand-written")
    op = load("mlp_swiglu", strict=True)
    inputs = drawn(sizes)
    for _ in range(2):
        y, z = op(**inputs)
    assert launched == [f"up {schedule.name}", f"down {schedule.name}"] * 2
    exact = load_task("mlp_swiglu").reference(**{k: v.double() for k, v in inputs.items()})
    close(y, exact["y"])
    close(z, exact["z"])


def test_batch_invariant_pins_one_schedule_a_stage(homes, launched):
    admit(evaluation("mlp_swiglu", homes), load_task("mlp_swiglu"), author="hand-written")
    op = load("mlp_swiglu", batch_invariant=True)
    for sizes in (SMALL, LARGE):
        op(**drawn(sizes))
    assert len(set(launched)) == 2


def test_a_formula_between_products_is_part_of_the_launch(homes, launched):
    admit(evaluation("rmsnorm_mlp_swiglu", homes), load_task("rmsnorm_mlp_swiglu"), author="hand-written")
    task = load_task("rmsnorm_mlp_swiglu")
    workload = task.correctness_workloads()[0]
    from codasmith.gate.tolerance import judge
    from codasmith.tasks import draw, oracle, unfused

    inputs = draw(task, workload)
    found = load("rmsnorm_mlp_swiglu", strict=True)(*inputs.values())
    found = found if isinstance(found, tuple) else (found,)
    truth, plain = oracle(task, inputs), unfused(task, inputs)
    assert [c.split()[0] for c in launched] == list(task.parts)
    for (name, tensor), value in zip(task.outputs.items(), found, strict=True):
        errors = judge(value, truth[name], plain[name], tensor.torch_dtype("bf16"))
        assert errors.ok, f"{name}: {errors}"


def test_objects_that_cannot_be_loaded_are_compiled_anew_stage_by_stage(homes, launched, monkeypatch):
    task, right, made = load_task("mlp_swiglu"), runner.template.Kernel, []

    class Kernel(right):
        def __init__(self, path, signature):
            if "anew" not in path.name:
                raise OSError("invalid ELF header")
            super().__init__(path, signature)

    def rebuilt(entry, task, compiled):
        assert set(entry.graphs) == {"up", "down"} and entry.graphs[compiled.stage].uses_accumulator
        made.append(compiled.stage)
        return compiled, homes / "anew.so"

    monkeypatch.setattr(runner.template, "Kernel", Kernel)
    monkeypatch.setattr(runner, "rebuilt", rebuilt)
    admit(evaluation("mlp_swiglu", homes), task, author="hand-written")
    with pytest.warns(FallbackWarning, match="compiled anew in .* s and checked"):
        y, _ = load("mlp_swiglu", strict=True)(**(inputs := drawn(SMALL)))
    assert sorted(made) == ["down", "up"]
    close(y, task.reference(**{k: v.double() for k, v in inputs.items()})["y"])


@pytest.fixture
def both(homes, launched):
    for name in ("mlp_swiglu", "mlp_swiglu_bwd"):
        admit(evaluation(name, homes), load_task(name), author="hand-written")
    return load("mlp_swiglu", strict=True)


def test_the_gradient_is_the_twins(both, launched):
    inputs = drawn(SMALL, requires_grad=True)
    grad = torch.randn(24, 32, generator=torch.Generator().manual_seed(2)).bfloat16()
    for _ in range(2):  # the second call goes straight to the kernels
        y, _ = both(**inputs)
        launched.clear()
        found = torch.autograd.grad(y, inputs.values(), grad)
        assert [c.split()[0] for c in launched] == ["gates", "weight_down", "input", "weight_up"]
    leaves = {k: v.detach().double().requires_grad_() for k, v in inputs.items()}
    y = load_task("mlp_swiglu").reference(**leaves)["y"]
    for value, exact in zip(found, torch.autograd.grad(y, leaves.values(), grad.double()), strict=True):
        assert value.dtype == torch.bfloat16
        close(value, exact)
    assert both.gradient is not None and both.gradient.task.name == "mlp_swiglu_bwd"


def test_stages_whose_gradients_nobody_wants_do_not_run(both, launched):
    inputs = drawn(SMALL)
    inputs["x"].requires_grad_()
    full = drawn(SMALL, requires_grad=True)
    expected = torch.autograd.grad(both(**full)[0].sum(), full["x"])[0]
    for ran in (["gates", "weight_down", "input", "weight_up"], ["gates", "input"]):  # the first call looks them up
        y, _ = both(**inputs)
        launched.clear()
        (found,) = torch.autograd.grad(y.sum(), inputs["x"])
        assert [c.split()[0] for c in launched] == ran
        assert torch.equal(found, expected)


def test_what_the_twin_does_not_give_the_reference_does(both, launched):
    inputs = drawn(SMALL, requires_grad=True)
    y, z = both(**inputs)
    launched.clear()
    (found,) = torch.autograd.grad((y.sum() + z.sum()), inputs["x"])
    assert launched == []
    leaves = {k: v.detach().double().requires_grad_() for k, v in inputs.items()}
    exact = load_task("mlp_swiglu").reference(**leaves)
    close(found, torch.autograd.grad(exact["y"].sum() + exact["z"].sum(), leaves["x"])[0])


def test_without_a_twin_in_the_registry_the_reference_is_differentiated(homes, launched):
    admit(evaluation("mlp_swiglu", homes), load_task("mlp_swiglu"), author="hand-written")
    op = load("mlp_swiglu", strict=True)
    assert op.gradient is None
    inputs = drawn(SMALL, requires_grad=True)
    op(**inputs)[0].sum().backward()
    assert all(v.grad is not None for v in inputs.values())


@pytest.mark.slow
def test_the_gradient_goes_through_torch_compile_whole(both):
    inputs = drawn(SMALL, requires_grad=True)
    step = torch.compile(lambda **named: both(**named)[0], fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(step(**inputs).sum(), inputs.values())
    expected = torch.autograd.grad(both(**inputs)[0].sum(), inputs.values())
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_where_no_kernel_runs_a_program_is_its_reference(homes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        y, z = load("mlp_swiglu")(**drawn(SMALL))
    assert y.shape == (24, 32) and z.shape == (24, 80)


@pytest.mark.parametrize("name", [n for n in program_tasks() if f"{n}_bwd" in program_tasks()])
def test_every_program_that_ships_fits_its_twin(name):
    task, back = load_task(name), load_task(f"{name}_bwd")
    twin = pair(task, SimpleNamespace(task=back))
    assert len(twin.gives) == len(back.outputs) and len(twin.reads) == len(back.tensors)
    floats = {n for n, t in task.tensors.items() if t.dtype is None and t.dimensions}
    without = floats - {list(task.tensors)[i] for i in twin.gives}
    assert without <= {"table", "plain"}, f"{sorted(without)} would be differentiated by the reference"


def test_a_twin_that_reads_something_else_is_named():
    @program_task(
        dy=Tensor("M N"),
        mask=Tensor("M N"),
        w_up=Tensor("N K"),
        stages=(product("input", "dy @ w_up", writes=("dx",)),),
        out={"dx": Tensor("M K")},
    )
    def mlp_swiglu_bwd(dy, mask, w_up):
        """Not the twin."""
        return {"dx": dy @ w_up}

    with pytest.raises(TaskError, match="mlp_swiglu_bwd reads 'mask', which is no input"):
        pair(load_task("mlp_swiglu"), SimpleNamespace(task=mlp_swiglu_bwd))


@pytest.mark.slow
def test_torchs_own_checks_of_an_operator_pass(both):
    inputs = tuple(drawn(SMALL, requires_grad=True).values())
    torch.library.opcheck(both.overload, inputs)
