"""On a Hopper GPU: the shipped kernels called again and again, the check on an unknown machine, modules, models."""

from pathlib import Path

import pytest
import torch
from codasmith.tasks import catalogue, draw, oracle, unfused
from codasmith.verified_kernels import load, recheck, store
from codasmith.verified_kernels.choice import COMPILED, faster
from codasmith.verified_kernels.modules import GELUMLP, RMSNormSwiGLUMLP, SwiGLUMLP
from codasmith.verified_kernels.patch import patch, unpatch
from torch import nn
from torch.nn.functional import gelu, silu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)), reason="needs a Hopper GPU"
    ),
]
SHIPPED = Path(store.__file__).parent / "kernels"
NAMES = sorted(p.name for p in SHIPPED.iterdir() if p.name in catalogue())


@pytest.fixture(autouse=True)
def shipped(homes, monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)


def check(task, inputs, results):
    """Within twice the unfused path's own error, plus one unit in the last place of the output's scale."""
    exact, plain = oracle(task, inputs), unfused(task, inputs)
    for (name, truth), result in zip(exact.items(), results, strict=True):
        budget = (plain[name].double() - truth).abs().max() * 2 + truth.abs().max() * 2**-8
        assert (result.double() - truth).abs().max() <= budget, name


def run_and_check(op, inputs):
    given = {k: v.clone() if k in op.task.accumulates else v for k, v in inputs.items()}
    results = op(**given)
    check(op.task, inputs, results if isinstance(results, tuple) else (results,))


@pytest.mark.parametrize("name", NAMES)
def test_each_shipped_kernel_is_right_at_every_call(name):
    op = load(name, strict=True)
    workloads = [w for w in op.task.correctness_workloads("bf16") if w.family == "normal"][:2]
    with torch.no_grad():
        for _ in range(3):
            for workload in workloads:
                run_and_check(op, draw(op.task, workload, "cuda"))


@pytest.mark.parametrize("name", NAMES)
def test_each_shipped_kernel_passes_its_check_on_an_unknown_machine(name, homes, monkeypatch):
    here = {**recheck.surroundings(torch.device("cuda", 0)), "driver": "0.0"}
    monkeypatch.setattr(recheck, "surroundings", lambda device: here)
    op = load(name, strict=True)
    inputs = draw(op.task, op.task.correctness_workloads("bf16")[0], "cuda")
    assert op.why_not(**inputs) is None
    assert len(list((homes / "cache/checked").glob("*.json"))) == 1


def test_results_of_repeated_calls_are_memory_of_their_own():
    op = load("rmsnorm_swiglu", strict=True)
    inputs = draw(op.task, op.task.correctness_workloads("bf16")[0], "cuda")
    with torch.inference_mode():
        results = [op(**inputs) for _ in range(4)]
    assert len({r.data_ptr() for r in results}) == 4 and all(torch.equal(r, results[0]) for r in results)


def test_a_repeated_call_is_captured_in_a_graph():
    op = load("residual_partial_rmsnorm", strict=True)
    workload = next(w for w in op.task.correctness_workloads("bf16") if w.family == "normal")
    held = draw(op.task, workload, "cuda")
    for _ in range(2):
        op(**held)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = op(**held)
    fresh = draw(op.task, workload.model_copy(update={"seed": 9}), "cuda")
    for name, value in fresh.items():
        held[name].copy_(value)
    graph.replay()
    check(op.task, fresh, results)


MODULES = {
    "swiglu": (SwiGLUMLP, lambda m, x: silu(x @ m["gate_proj.weight"].T) * (x @ m["up_proj.weight"].T)),
    "gelu": (GELUMLP, lambda m, x: gelu(x @ m["fc1.weight"].T + m["fc1.bias"])),
    "rmsnorm_swiglu": (
        RMSNormSwiGLUMLP,
        lambda m, x: MODULES["swiglu"][1](m, nn.functional.rms_norm(x, x.shape[-1:], m["norm.weight"], 1e-6)),
    ),
}


@pytest.mark.parametrize("which", MODULES)
@pytest.mark.filterwarnings("error:.*runs its unfused reference")
def test_modules_run_their_kernels(which):
    torch.manual_seed(0)
    make, middle = MODULES[which]
    module = make(512, 1024, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(3, 100, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weights = {k: v.float() for k, v in module.state_dict().items()}
    last = "fc2" if which == "gelu" else "down_proj"
    expected = middle(weights, x.detach().float()) @ weights[f"{last}.weight"].T + weights.get(f"{last}.bias", 0)
    for _ in range(2):
        y = module(x)
        torch.testing.assert_close(y.float(), expected, rtol=3e-2, atol=3e-2 * expected.abs().max().item())
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [x, *module.parameters()])


@pytest.mark.parametrize("name", ["Llama", "Qwen3"])
def test_a_patched_model_answers_the_same(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    config = getattr(transformers, f"{name}Config")(**sizes, **heads)
    model = getattr(transformers, f"{name}ForCausalLM")(config).to("cuda", torch.bfloat16).eval()
    tokens = torch.randint(0, 512, (2, 64), device="cuda")
    with torch.no_grad():
        expected = model(tokens).logits
        patch(model)
        torch.testing.assert_close(model(tokens).logits, expected, rtol=5e-2, atol=5e-2 * expected.abs().max().item())
        unpatch(model)
        assert torch.equal(model(tokens).logits, expected)


@pytest.mark.parametrize("name", ["linear_bias", "linear_router_sigmoid_fp8"])
def test_where_the_compiler_was_measured_to_be_faster_its_trace_holds_the_reference(name):
    op = load(name)
    evidence = op.entry.record.of(op.task.usual_storage)
    slower = [w.workload for w in evidence.workloads if COMPILED in faster(evidence, w.workload.sizes)]
    if not slower:
        pytest.skip(f"the record of {name} names no such size")
    inputs = draw(op.task, slower[0], "cuda")
    torch._dynamo.reset()
    compiled = torch.compile(lambda **i: op(**i), fullgraph=True, dynamic=False)
    with torch.no_grad():
        compiled(**inputs)  # traces, which the profiler would see too
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            y = compiled(**inputs)
    assert f"codasmith::{name}" not in {e.name for e in profile.events()}
    assert "traced by torch.compile" in op.explain(**inputs) and op.why_not(**inputs) is None
    check(op.task, inputs, (y,))
