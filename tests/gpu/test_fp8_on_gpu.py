"""fp8 operands on a GPU: every schedule against float64, deep products too, and the baselines."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from codasmith.evals.hand_written import source_for
from codasmith.gate import baselines
from codasmith.gate.buffers import BareSet
from codasmith.gate.frame import frame_of
from codasmith.gate.tolerance import judge
from codasmith.primitives import read
from codasmith.tasks import Workload, draw, oracle, unfused
from codasmith.tasks.load import shipped_task
from codasmith.tasks.quantise import as_unfused, by_scaled_mm
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.launch import Kernel, refuse
from codasmith.templates.schedule import FP8_SCHEDULES

pytestmark = pytest.mark.gpu

BOUNDED = ("linear_sigmoid_fp8", "linear_clamp_fp8")
"""What a tensor core loses beside large terms is all that their outputs show."""
NAMES = ("linear_scale_bias", "linear_scale_swiglu", "linear_alpha_beta_residual", "rmsnorm_rope", *BOUNDED)
TASKS = {name: shipped_task(name) for name in NAMES}
TASK = TASKS["linear_scale_bias"]


@pytest.fixture(scope="module")
def kernels():
    """All compiled at once: the futures by task and schedule."""
    with Compiler() as compiler:
        futures = {}
        for name in NAMES:
            graph = read(source_for(name), list(TASKS[name].operands.values()))
            for schedule in FP8_SCHEDULES:
                made = generate(graph, frame_of(TASKS[name], "fp8"), schedule)
                futures[name, schedule.name] = compiler.submit(made.source, made.signature)
        yield futures


def errors(compiled, task, workload):
    """By output, what the gate's rule says of one run."""
    assert compiled.ok, compiled.error
    kernel, inputs = Kernel(compiled.object, compiled.signature), draw(task, workload, "cuda")
    assert refuse(compiled.signature, inputs) is None
    outputs = kernel.outputs_like(inputs)
    for tensor in outputs.values():
        tensor.fill_(float("nan"))
    kernel(inputs, outputs)
    torch.cuda.synchronize()
    truth, plain = oracle(task, inputs), unfused(task, inputs)
    return {n: judge(t, truth[n], plain[n], plain[n].dtype) for n, t in outputs.items()}


@pytest.mark.parametrize("schedule", [s.name for s in FP8_SCHEDULES])
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_agrees_with_float64_on_ragged_sizes_of_every_family(kernels, name, schedule):
    task = TASKS[name]
    for workload in task.correctness_workloads("fp8"):
        for output, found in errors(kernels[name, schedule].result(), task, workload).items():
            assert found.ok, f"{output} on {workload.label} ({workload.family}): {found}"


@pytest.mark.parametrize("depth", [4096, 32768])
def test_deep_products_lose_no_more_than_rounding_the_result_does(kernels, depth):
    """What a tensor core's own 14 bits would lose grows with the depth; sums in float32 do not let it."""
    workload = Workload(sizes={"M": 512, "N": 768, "K": depth}, storage="fp8")
    (found,) = errors(kernels["linear_scale_bias", FP8_SCHEDULES[0].name].result(), TASK, workload).values()
    shares = (e / found.scale_rms for e in (found.kernel_rms, found.unfused_rms))
    print("K {}: RMS error {:.2e}, unfused {:.2e}".format(depth, *shares))
    assert found.ok and found.kernel_rms < 2**-8 * found.scale_rms


@pytest.mark.parametrize("name", BOUNDED)
def test_sums_that_are_never_added_in_float32_are_not_forgiven(name, monkeypatch):
    """Fast accumulation, as torch has it: 8192 terms in the tensor core's own 14 bits."""
    task, workload = TASKS[name], Workload(sizes={"M": 512, "N": 768, "K": 8192}, storage="fp8", family="large")
    inputs = draw(task, workload, "cuda")
    truth, plain = oracle(task, inputs)["y"], unfused(task, inputs)["y"]
    with monkeypatch.context() as patch:
        patch.setattr(torch, "_scaled_mm", partial(torch._scaled_mm, use_fast_accum=True))
        fast = unfused(task, inputs)["y"]
    found = judge(fast, truth, plain, plain.dtype)
    print(f"{name}: {found}; RMS {found.kernel_rms:.2e}, unfused {found.unfused_rms:.2e}")
    assert not found.ok


def test_the_unfused_path_takes_any_number_of_columns():
    inputs = draw(TASK, Workload(sizes={"M": 77, "N": 520, "K": 144}, storage="fp8", family="integers"), "cuda")
    run, given = as_unfused(lambda x, w: x @ w.T, {"x": inputs["x"], "w": inputs["w"]})
    assert torch.equal(run(**given), (inputs["x"].double() @ inputs["w"].double().T).bfloat16())


def test_cublas_and_the_reference_multiply_fp8_eagerly_and_compiled():
    inputs = draw(TASK, Workload(sizes={"M": 512, "N": 768, "K": 1024}, storage="fp8"), "cuda")
    out = torch.empty(512, 768, dtype=torch.bfloat16, device="cuda")
    replay = baselines.cublas(TASK, [BareSet({"a": inputs["x"], "b": inputs["w"]}, {"product": out}, {})])
    out.zero_()
    replay(1)
    exact = inputs["x"].double() @ inputs["w"].double().T
    assert (out.double() - exact).abs().max() <= exact.abs().max() / 128
    truth = oracle(TASK, inputs)["y"]
    reference = by_scaled_mm(TASK.reference, inputs)
    for run in (reference, torch.compile(reference, dynamic=False, fullgraph=True)):
        assert (run(**inputs)["y"].double() - truth).abs().max() <= truth.abs().max() / 64
