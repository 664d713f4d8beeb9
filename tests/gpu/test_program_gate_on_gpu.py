"""Programs through the whole gate, into a registry, and out of it as operators with a gradient, on a Hopper GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files

import pytest
import torch
from codasmith import gate
from codasmith.gate.tolerance import judge
from codasmith.tasks import Workload, draw, load_task, oracle, unfused
from codasmith.templates.schedule import by_name
from codasmith.verified_kernels import admit, load

pytestmark = pytest.mark.gpu

HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SCHEDULES = (by_name("128x256-coop-2x1"), by_name("128x128-pingpong-2x1"))
SIZES = {
    "mlp_swiglu": {"M": 1024, "D": 512, "F": 768},
    "mlp_swiglu_bwd": {"M": 1024, "D": 512, "F": 768},
    "rmsnorm_mlp_swiglu": {"M": 1024, "K": 512, "D": 512, "F": 768},
    "linear_cross_entropy": {"M": 1024, "N": 2048, "K": 512},
    "linear_cross_entropy_bwd": {"M": 1024, "N": 2048, "K": 512},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A registry of their own for these tests."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODASMITH_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def verdicts(home):
    """Every program judged; those that passed are admitted."""
    found = {}
    for name, sizes in SIZES.items():
        task = load_task(name)
        evaluation = gate.evaluate(
            task,
            (HAND_WRITTEN / f"{name}.py").read_text(),
            schedules=SCHEDULES,
            workloads=[Workload(sizes=sizes)],
            compile_baseline=False,
            rounds=5,
        )
        found[name] = evaluation.verdict
        if evaluation.verdict.status == "passed":
            admit(evaluation, task, author="hand-written")
    return found


@pytest.mark.parametrize("name", SIZES)
def test_a_program_passes_the_whole_gate(verdicts, name):
    verdict = verdicts[name]
    assert verdict.status == "passed", f"{verdict.finding} {verdict.note}"
    (row,) = verdict.timing["workloads"]
    parts = load_task(name).parts
    assert all(any(n.startswith(f"{part}: ") for n in row["milliseconds"]) for part in parts)
    assert 0.5 < row["tax"]["value"] < 5


def drawn(name, seed=3, **changes):
    task = load_task(name)
    inputs = draw(task, Workload(sizes={**SIZES[name], **changes}, seed=seed), "cuda")
    return task, inputs


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("rows", [1, 77, 1024])
def test_a_loaded_program_is_within_the_gates_bound(verdicts, name, rows):
    task, inputs = drawn(name, M=rows)
    found = load(name, strict=True)(*inputs.values())
    found = found if isinstance(found, tuple | list) else (found,)
    truth, plain = oracle(task, inputs), unfused(task, inputs)
    for (output, tensor), value in zip(task.outputs.items(), found, strict=True):
        errors = judge(value, truth[output], plain[output], tensor.torch_dtype("bf16"))
        assert errors.ok, f"{output}: {errors}"


def gradients(op, inputs, grad):
    leaves = {n: v.detach().requires_grad_(v.is_floating_point()) for n, v in inputs.items()}
    wanted = [v for v in leaves.values() if v.requires_grad]
    result = op(**leaves)
    first = result[0] if isinstance(result, tuple | list) else result
    return torch.autograd.grad(first, wanted, grad)


@pytest.mark.parametrize(("name", "output"), [("mlp_swiglu", "y"), ("linear_cross_entropy", "loss")])
def test_the_gradient_of_a_loaded_program_is_its_twins(verdicts, name, output):
    task, inputs = drawn(name)
    op = load(name, strict=True)
    assert op.gradient is not None and op.gradient.entry is not None
    shape, dtype = task.outputs[output].size(SIZES[name]), task.outputs[output].torch_dtype("bf16")
    grad = torch.randn(shape, device="cuda", dtype=dtype)
    found = gradients(op, inputs, grad)
    wide = {n: v.double() if v.is_floating_point() else v for n, v in inputs.items()}
    exact = gradients(lambda **v: task.reference(**v)[output].double(), wide, grad.double())
    plain = gradients(lambda **v: task.reference(**v)[output], inputs, grad)
    for ours, theirs, truth in zip(found, plain, exact, strict=True):
        allowed = 2 * (theirs.double() - truth).abs().max() + 4e-3 * truth.abs().max()
        assert (ours.double() - truth).abs().max() <= allowed


def test_forward_and_backward_run_in_a_cuda_graph_and_on_another_stream(verdicts):
    _, inputs = drawn("mlp_swiglu")
    op = load("mlp_swiglu", strict=True)
    grad = torch.randn(1024, 512, device="cuda", dtype=torch.bfloat16)
    expected = gradients(op, inputs, grad)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            again = gradients(op, inputs, grad)
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        replayed = gradients(op, inputs, grad)
    captured.replay()
    torch.cuda.synchronize()
    for one, two, three in zip(expected, again, replayed, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)


def test_forward_and_backward_compile_whole(verdicts):
    _, inputs = drawn("mlp_swiglu")
    op = load("mlp_swiglu", strict=True)
    grad = torch.randn(1024, 512, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(lambda **named: op(**named)[0], fullgraph=True)
    for one, two in zip(gradients(compiled, inputs, grad), gradients(op, inputs, grad), strict=True):
        assert torch.equal(one, two)


FRESH = """
import sys, time
import torch
torch.zeros(1, device="cuda")
started = time.perf_counter()
from codasmith.verified_kernels import load
x, u, d = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((1024, 512), (1536, 512), (512, 768)))
y, z = load("mlp_swiglu", strict=True)(x, u, d)
torch.cuda.synchronize()
print(f"{time.perf_counter() - started:.2f} s to the first result")
assert y.isfinite().all()
loaded = [m for m in ("quack", "cutlass") if m in sys.modules]
assert not loaded, loaded
"""


def test_a_fresh_process_needs_no_compiler(verdicts, home):
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120, env={**os.environ}
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
