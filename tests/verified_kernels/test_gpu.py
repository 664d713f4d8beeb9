"""A real kernel as an operator on a Hopper GPU: values, CUDA graphs, streams, compile, autograd."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.gate.verdict import STAGES, StageResult, Verdict
from codasmith.primitives import read
from codasmith.tasks import Workload, draw, load_task, oracle, unfused
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import OutsideDomain, admit, hand_written, load

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
    ),
]
SIZES = {"M": 1000, "F": 520, "K": 520}


@pytest.fixture(scope="module")
def compiled():
    """The hand-written epilogue under two schedules, as the gate would hand it over."""
    task = load_task("rmsnorm_swiglu")
    source = (Path(hand_written.__file__).parent / "rmsnorm_swiglu.py").read_text()
    graph = read(source, tuple(task.operands.values()))
    objects, signatures = {}, {}
    with Compiler() as compiler:
        for schedule in SCHEDULES[:2]:
            made = generate(graph, frame_of(task, "bf16"), schedule)
            done = compiler.submit(made.source, made.signature).result()
            assert done.ok, done.error
            objects[schedule.name], signatures[schedule.name] = done.object, done.signature
    verdict = Verdict(
        task=task.name,
        task_digest=task.digest,
        candidate_digest="c" * 64,
        status="passed",
        stages=tuple(StageResult(stage=s, outcome="passed") for s in STAGES),
        environment={"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {},
    )
    return SimpleNamespace(
        verdict=verdict,
        source=source,
        task=task,
        objects=objects,
        signatures=signatures,
        graph=graph,
        tier="closed",
        storage="bf16",
    )


@pytest.fixture
def op(compiled):
    admit(compiled, compiled.task, author="hand-written")
    return load("rmsnorm_swiglu", strict=True)


def drawn(task, seed=0, **sizes):
    inputs = draw(task, Workload(sizes={**SIZES, **sizes}, seed=seed))
    return {k: v.cuda() for k, v in inputs.items()}


def check(task, inputs, result):
    """Within twice the unfused path's own error, plus one unit in the last place of the output's scale."""
    exact = oracle(task, inputs)["o"]
    budget = (unfused(task, inputs)["o"].double() - exact).abs().max() * 2 + exact.abs().max() * 2**-8
    assert (result.double() - exact).abs().max() <= budget


def test_values_are_within_the_budget(op):
    for sizes in ({}, {"M": 1}, {"M": 4096, "F": 2048, "K": 4096}):
        inputs = drawn(op.task, **sizes)
        check(op.task, inputs, op(**inputs))


def test_a_cuda_graph_replays_it_on_fresh_content(op):
    first, second = drawn(op.task, seed=1), drawn(op.task, seed=2)
    held = {k: v.clone() for k, v in first.items()}
    op(**held)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = op(**held)
    for k, v in second.items():
        held[k].copy_(v)
    graph.replay()
    check(op.task, second, result)


def test_it_runs_on_the_current_stream(op):
    inputs = drawn(op.task, M=4096, F=2048, K=4096)
    stream = torch.cuda.Stream()
    late = {k: torch.zeros_like(v) for k, v in inputs.items()}
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        for k, v in inputs.items():
            late[k].copy_(v)
        result = op(**late)
    stream.synchronize()
    check(op.task, inputs, result)


def test_nothing_waits_for_the_gpu(op):
    inputs = drawn(op.task)
    op(**inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = op(**inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    check(op.task, inputs, result)


def test_compile_and_gradient(op):
    inputs = drawn(op.task)
    check(op.task, inputs, torch.compile(op, fullgraph=True)(**inputs))
    found = []
    for function in (op, lambda **v: op.task.reference(**v)["o"]):
        leaves = {k: v.clone().requires_grad_() for k, v in inputs.items()}
        function(**leaves).float().sum().backward()
        found.append([v.grad for v in leaves.values()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * theirs.abs().max().item())


def test_opcheck_is_clean(op):
    torch.library.opcheck(op.overload, tuple(drawn(op.task).values()))


def test_outside_the_domain_strict_says_why(op):
    inputs = drawn(op.task)
    with pytest.raises(OutsideDomain, match="contiguous"):
        op(**{**inputs, "x": inputs["x"].t().contiguous().t()})
    with pytest.raises(OutsideDomain, match="fp16"):
        op(**{k: v.half() if v.dtype == torch.bfloat16 else v for k, v in inputs.items()})


def test_loading_needs_neither_quack_nor_the_compiler(op):
    program = """
import sys, torch
from codasmith.verified_kernels import load
op = load("rmsnorm_swiglu", strict=True)
x, w = (torch.randn(s, 512, device="cuda", dtype=torch.bfloat16) for s in (64, 256))
op(x, w, torch.ones(64, device="cuda"))
torch.cuda.synchronize()
print("quack" in sys.modules, "cutlass" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["False", "False"], done.stderr
