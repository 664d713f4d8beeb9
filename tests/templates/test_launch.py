"""Launching: what reaches the compiled call, and which inputs are refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.primitives import read
from codasmith.tasks import Workload, draw, load_task
from codasmith.templates import bound, launch
from codasmith.templates.generate import generate
from codasmith.templates.launch import Kernel, LaunchError, bind, refuse
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import hand_written

FOLDER = Path(hand_written.__path__[0])


def signature_of(name):
    task = load_task(name)
    graph = read((FOLDER / f"{name}.py").read_text(), list(task.operands.values()))
    made = generate(graph, frame_of(task, "bf16"), SCHEDULES[0]).signature
    fields = (*(a.field for a in made.arguments), "split_k_semaphore", "split_k_workspace")
    return task, made.model_copy(update={"symbol": "k", "fields": fields})


class Recorder(dict):
    """Stands in for a loaded object: functions by name that keep what they are called with."""

    def __missing__(self, name):
        self[name] = lambda *arguments, n=name: self.calls.append((n, arguments))
        return self[name]


@pytest.fixture
def module(monkeypatch):
    import tvm_ffi

    recorder = Recorder()
    recorder.calls = []
    monkeypatch.setattr(tvm_ffi, "load_module", lambda path: recorder)
    monkeypatch.setattr(launch, "processors", lambda device: 132)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(bound, "_current_device", lambda: None)
    return recorder


def test_tensors_stand_where_the_compiled_signature_wants_them(module):
    task, signature = signature_of("residual_partial_rmsnorm")
    inputs = draw(task, task.correctness_workloads()[0])
    kernel = Kernel(Path("x.so"), signature)
    outputs = kernel.outputs_like(inputs)
    kernel(inputs, outputs)
    (gemm, arguments), (join, joined) = module.calls
    a, b, d, c, values, scheduler, *rest = arguments
    assert (gemm, join) == ("k", "k_join_y_sumsq")
    assert a is inputs["x"] and b is inputs["w"] and d is outputs["h"] and c is inputs["residual"]
    gamma, g, partials, *none = values
    assert gamma.shape == (1, *inputs["gamma"].shape) and gamma.data_ptr() == inputs["gamma"].data_ptr()
    assert g is outputs["g"] and none == [None, None] and rest == [None, None, None]
    assert partials.shape == (inputs["x"].shape[0], -(-inputs["w"].shape[0] // 256)) and partials.dtype == torch.float32
    assert joined[0] is partials and joined[1] is outputs["sumsq"]
    assert scheduler == (66, None, 8, None, None, None)


def test_a_transposed_operand_goes_as_a_view_and_an_accumulated_output_is_the_input(module):
    task, signature = signature_of("linear_accumulate")
    inputs = draw(task, task.correctness_workloads()[0])
    kernel = Kernel(Path("x.so"), signature)
    outputs = kernel.outputs_like(inputs)
    (name,) = task.accumulates
    assert outputs[name] is inputs[name]
    kernel(inputs, outputs)
    a, _, d, c, *_ = module.calls[0][1]
    assert a.data_ptr() == inputs[task.gemm.a].data_ptr() and a.shape == inputs[task.gemm.a].T.shape
    assert d is inputs[name] and c is None


def test_scalars_go_as_numbers(module):
    task, signature = signature_of("linear_alpha_beta_residual")
    inputs = draw(task, task.correctness_workloads()[0])
    kernel = Kernel(Path("x.so"), signature)
    kernel(inputs, kernel.outputs_like(inputs))
    values = module.calls[0][1][4]
    assert [v for v in values if isinstance(v, float)] == [inputs["alpha"], inputs["beta"]]


@pytest.mark.parametrize(
    "name",
    [
        "residual_partial_rmsnorm",
        "linear_accumulate",
        "linear_alpha_beta_residual",
        "rmsnorm_cross_entropy",
        "residual_rmsnorm_bwd",
        "swiglu_bwd",
    ],
)
def test_a_bound_launch_calls_as_the_unbound_one_does(module, name):
    task, signature = signature_of(name)
    inputs = draw(task, task.correctness_workloads()[0])
    kernel = Kernel(Path("x.so"), signature)
    outputs = kernel.outputs_like(inputs)
    kernel(inputs, outputs)
    plain, module.calls = module.calls, []
    fresh = kernel.bound(inputs)(tuple(inputs.values()))
    assert [n for n, _ in module.calls] == [n for n, _ in plain]

    given = {v.data_ptr() for v in inputs.values() if isinstance(v, torch.Tensor)}

    def look(value):
        """What must agree: an input's very memory; of a new tensor its form."""
        if isinstance(value, tuple):
            return [look(v) for v in value]
        if not isinstance(value, torch.Tensor):
            return value
        return value.shape, value.stride(), value.dtype, value.data_ptr() if value.data_ptr() in given else "new"

    assert [look(a) for _, a in module.calls] == [look(a) for _, a in plain]
    assert [look(v) for v in fresh] == [look(outputs[n]) for n in task.outputs if n not in task.accumulates]
    used = {id(v) for _, a in module.calls for v in (*a, *(a[4] if len(a) > 4 else ())) if isinstance(v, torch.Tensor)}
    assert {id(v) for v in fresh} <= used


@pytest.mark.parametrize("name", ["residual_rmsnorm_bwd_inplace", "linear_swiglu", "linear_accumulate"])
def test_one_row_of_a_wider_tensor_goes_with_the_strides_of_its_own(module, name):
    """Contiguous, as torch sees it, and yet with a stride that TMA need not take."""
    task, signature = signature_of(name)
    lone = "K" if name == "linear_accumulate" else "M"
    inputs = draw(task, Workload(sizes={**task.default_sizes(64), lone: 1}))
    wide = {n: v for n, v in inputs.items() if isinstance(v, torch.Tensor) and v.dim() == 2 and v.shape[0] == 1}
    cut = {n: torch.cat((v, v[:, :1]), 1).repeat(2, 1)[:1, :-1] for n, v in wide.items()}
    assert wide and all(v.is_contiguous() and v.stride(0) == v.shape[1] + 1 for v in cut.values())
    launch = Kernel(Path("x.so"), signature).bound({**inputs, **cut})
    launch(tuple({**inputs, **cut}.values()))
    ((_, (a, b, d, c, values, *_)),) = [call for call in module.calls if "_join_" not in call[0]]
    passed = {t.data_ptr(): t for t in (a, b, d, c, *values) if isinstance(t, torch.Tensor)}
    for cut_tensor in cut.values():
        taken = passed[cut_tensor.data_ptr()]
        assert sorted(taken.stride())[-1] <= max(taken.shape)


def test_a_selected_output_starts_as_nan(module):
    task, signature = signature_of("rmsnorm_cross_entropy")
    inputs = draw(task, task.correctness_workloads()[0])
    fresh = dict(zip(task.outputs, Kernel(Path("x.so"), signature).bound(inputs)(tuple(inputs.values())), strict=True))
    (selected,) = (s.name for s in signature.sinks if s.join == "select")
    assert fresh[selected].isnan().all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i: i.pop("rstd"), "the input rstd [M] is missing"),
        (lambda i: i.update(rstd=2.0), "rstd is float, and a tensor [M] is wanted"),
        (lambda i: i.update(x=i["x"][0]), "x has shape [72], and [M, K] is wanted"),
        (lambda i: i.update(w=i["w"][:-1]), "whose 2F is no multiple of 2"),
        (lambda i: i.update(rstd=i["rstd"][:-1]), "with M = 16 from the inputs before it [M] is [16]"),
        (lambda i: i.update(w=i["w"][:, :-8]), "with K = 72 from the inputs before it [2F, K]"),
    ],
)
def test_shapes_that_contradict_each_other_are_named_with_their_values(change, words):
    task, signature = signature_of("rmsnorm_swiglu")
    inputs = draw(task, task.correctness_workloads()[0])
    assert bind(signature, inputs)["M"] == 16
    change(inputs)
    with pytest.raises(LaunchError) as caught:
        bind(signature, inputs)
    assert words in str(caught.value)
    assert refuse(signature, inputs) == str(caught.value)


def test_a_shape_is_named_though_another_of_its_symbols_is_not_known_yet():
    task, signature = signature_of("swiglu_bwd")
    inputs = draw(task, task.correctness_workloads()[0])
    inputs["w"] = inputs["w"][:-8]
    words = "w has shape [64, 200], and with K = 72 from the inputs before it [K, F] is [72, F]; make the shapes agree"
    assert refuse(signature, inputs) == words


def test_tensors_off_the_gpu_are_refused():
    task, signature = signature_of("rmsnorm_swiglu")
    inputs = draw(task, task.correctness_workloads()[0])
    assert refuse(signature, inputs) == "x is on cpu, and the kernel runs on a CUDA device; move it there"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda i: i.update(x=i["x"].half()), "x is torch.float16, and torch.bfloat16 is wanted"),
        (lambda i: i.update(x=i["x"].T.contiguous().T), "x is not contiguous"),
        (lambda i: i.update(x=i["x"][:1].expand(16, -1)), "x is not contiguous"),
        (lambda i: i.update(x=i["x"][:0], rstd=i["rstd"][:0]), "the kernel needs at least one row"),
        (lambda i: i.update(x=i["x"][:, :0], w=i["w"][:, :0]), "the dimension K is 0"),
        (lambda i: i.update(x=i["x"][:, :-4].clone(), w=i["w"][:, :-4].clone()), "that must be a multiple of 8"),
        (lambda i: i.update(w=i["w"][:24].clone()), "the output o would be 12 wide"),
        (
            lambda i: i.update(x=torch.cat((i["x"].flatten(), i["x"][0]))[4 : 4 + i["x"].numel()].view_as(i["x"])),
            "no multiple of 16 bytes",
        ),
        (lambda i: i.update(rstd=i["rstd"].cpu()), "rstd is on cpu"),
    ],
)
def test_what_would_fail_at_launch_is_refused_before(change, words):
    task, signature = signature_of("rmsnorm_swiglu")
    inputs = draw(task, task.correctness_workloads()[0], "cuda")
    assert refuse(signature, inputs) is None
    change(inputs)
    assert words in (refuse(signature, inputs) or "")
