"""Backward programs, with hand-written epilogues, agree with autograd of the forward reference in float64."""

from importlib.resources import files

import pytest
import torch
from codasmith.tasks import Workload, cast, draw, program_tasks
from codasmith.templates.program import interpret

PROGRAMS = program_tasks()
HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SIZES = {"M": 19, "D": 40, "F": 24, "K": 32, "N": 56, "S": 3}
NO_GRADIENT = {"target", "table", "plain", "eps"}
"""Inputs of forward programs that are given and not learnt."""
GRADIENT_OF = {name: ("y",) for name in PROGRAMS} | {
    "linear_cross_entropy": ("loss",),
    "rmsnorm_qkv_rope": ("qkv",),
    "llama_block": ("y", "qkv"),
}
"""Outputs with a gradient; the others are kept for the backward pass."""
FORWARD = [n for n in PROGRAMS if f"{n}_bwd" in PROGRAMS]


def answer(name, inputs):
    task = PROGRAMS[name]
    sizes = {s: SIZES[s] for s in task.symbols}
    graphs = task.read((HAND_WRITTEN / f"{name}.py").read_text())
    return interpret(task.program(graphs, sizes), {k: inputs[k] for k in task.tensors})


def inputs_of(name):
    task = PROGRAMS[name]
    sizes = {s: SIZES[s] for s in task.symbols}
    return cast(draw(task, Workload(sizes=sizes, seed=5)), torch.float64)


def autograd(name, inputs):
    """The forward reference's outputs, the gradients given to them, and those of its inputs."""
    leaves = {
        k: v.clone().requires_grad_() if torch.is_tensor(v) and k not in NO_GRADIENT else v for k, v in inputs.items()
    }
    out = PROGRAMS[name].reference(**leaves)
    generator = torch.Generator().manual_seed(3)
    given = {n: torch.randn(out[n].shape, dtype=torch.float64, generator=generator) for n in GRADIENT_OF[name]}
    wanted = [k for k in leaves if k not in NO_GRADIENT]
    found = torch.autograd.grad([out[n] for n in given], [leaves[k] for k in wanted], list(given.values()))
    return {k: v.detach() for k, v in out.items()}, given, dict(zip(wanted, found, strict=True))


def test_every_program_that_trains_has_a_backward_one():
    assert {*FORWARD, *(f"{n}_bwd" for n in FORWARD), "linear_cross_entropy_forward"} == set(PROGRAMS)


@pytest.mark.parametrize("name", FORWARD)
def test_a_backward_program_is_the_derivative_of_its_forward_one(name, monkeypatch):
    # The references round to float32 where a kernel keeps float32; here they stay wide.
    monkeypatch.setattr(torch.Tensor, "float", lambda t: t)
    inputs = inputs_of(name)
    outputs, given, wanted = autograd(name, inputs)
    got = answer(f"{name}_bwd", {**inputs, **outputs, **{f"d{n}": v for n, v in given.items()}})
    assert set(got) == {f"d{n}" for n in wanted}
    for key, value in wanted.items():
        torch.testing.assert_close(got[f"d{key}"], value, rtol=1e-9, atol=1e-9 * value.abs().max().item())


@pytest.mark.parametrize("name", FORWARD)
def test_a_forward_program_keeps_what_its_backward_one_reads(name):
    forward, backward = PROGRAMS[name], PROGRAMS[f"{name}_bwd"]
    gradients = {f"d{n}": forward.outputs[n] for n in GRADIENT_OF[name]}
    known = {**forward.tensors, **forward.outputs, **gradients}
    for key, tensor in backward.tensors.items():
        assert (tensor.shape, tensor.dtype, tensor.layout) == (known[key].shape, known[key].dtype, known[key].layout)
    for key, tensor in backward.outputs.items():
        assert (tensor.shape, tensor.layout) == (known[key[1:]].shape, known[key[1:]].layout)


def test_value_heads_pass_through_qk_norm_and_their_gradients_too():
    """Two heads with a norm and one without: as three projections of their own would be."""
    inputs = inputs_of("qkv_qknorm_rope")
    inputs["gamma"][256:], inputs["plain"][:256], inputs["plain"][256:] = 0, 0, 1
    inputs["table"][:, 256:] = torch.tensor((1.0, 0.0)).repeat(64)
    projected = inputs["x"] @ inputs["w"].T
    y = answer("qkv_qknorm_rope", inputs)["y"]
    torch.testing.assert_close(y[:, 256:], projected[:, 256:], rtol=1e-12, atol=1e-12)
    one = torch.nn.functional.rms_norm(projected[:, :128], (128,), inputs["gamma"][:128], inputs["eps"])
    (a, b), (cos, sin) = ((t[:, 0::2], t[:, 1::2]) for t in (one, inputs["table"][:, :128]))
    torch.testing.assert_close(y[:, 0:128:2], a * cos - b * sin, rtol=1e-12, atol=1e-12)
    dy = torch.randn(y.shape, dtype=torch.float64)
    got = answer("qkv_qknorm_rope_bwd", {**inputs, "dy": dy, "q": projected})
    torch.testing.assert_close(got["dw"][256:], dy[:, 256:].T @ inputs["x"], rtol=1e-12, atol=1e-12)


def test_rows_without_a_loss_take_no_part_whatever_their_target():
    inputs = inputs_of("linear_cross_entropy")
    ignored = torch.arange(SIZES["M"]) % 3 == 0
    outputs = answer("linear_cross_entropy", inputs)
    dloss = torch.where(ignored, 0.0, 0.5).double()
    backward = {**inputs, **outputs, "dloss": dloss}
    backward["target"] = inputs["target"].masked_fill(ignored, -100)
    got = answer("linear_cross_entropy_bwd", backward)
    kept = ~ignored
    x, w = inputs["x"][kept].requires_grad_(), inputs["w"].clone().requires_grad_()
    (0.5 * torch.nn.functional.cross_entropy(x @ w.T, inputs["target"][kept], reduction="sum")).backward()
    torch.testing.assert_close(got["dw"], w.grad, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got["dx"][kept], x.grad, rtol=1e-10, atol=1e-10)
    assert not got["dx"][ignored].any()
