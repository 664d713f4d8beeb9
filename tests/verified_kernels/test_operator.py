"""Operators: the right values, schemas, fakes and gradients; the kernel where it may run, else the reference."""

import copy
import pickle
import warnings

import pytest
import torch
from codasmith.tasks import Workload, draw, unfused
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import (
    FallbackWarning,
    InputError,
    OutsideDomain,
    RegistryError,
    UnknownKernel,
    admit,
    load,
    runner,
)
from codasmith.verified_kernels.modules import LlamaBlock, LlamaLayers, LlamaShape
from codasmith.verified_kernels.operator import schema
from codasmith.verified_kernels.record import Best

SIZES = {
    "sample_gated": {"M": 5, "F": 8, "K": 16},
    "sample_select": {"M": 5, "N": 24, "K": 16},
    "sample_accumulate": {"M": 5, "N": 24, "K": 16},
    "sample_add": {"M": 8, "N": 24, "K": 16},
    "sample_alias": {"M": 5, "N": 24, "K": 16},
}


def values_of(task, seed=0, storage="bf16", **sizes):
    inputs = draw(task, Workload(sizes={**SIZES[task.name], **sizes}, seed=seed, storage=storage))
    return [inputs[name] for name in task.tensors]


@pytest.fixture
def plain(sample):
    """An operator without a kernel, its warning out of the way."""

    def make(name):
        with pytest.warns(FallbackWarning, match="no admitted kernel"):
            return load(sample(name))

    return make


pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference")


def test_schemas_have_floats_tensors_for_indices_and_marks_for_what_is_written(sample):
    assert schema(sample("sample_gated"), "g") == "g(Tensor x, Tensor w, Tensor rstd, float alpha) -> (Tensor, Tensor)"
    assert schema(sample("sample_select"), "s") == "s(Tensor x, Tensor w, Tensor target) -> Tensor"
    assert schema(sample("sample_accumulate"), "a") == "a(Tensor dy, Tensor w, Tensor(a2!) dx) -> Tensor"
    assert schema(sample("sample_add"), "a") == "a(Tensor dy, Tensor x, Tensor(a2!) dw) -> ()"


@pytest.mark.parametrize("name", ["sample_gated", "sample_select", "sample_alias"])
def test_the_reference_stands_in_with_declared_dtypes(plain, sample, name):
    task, op = sample(name), plain(name)
    values = values_of(task)
    results = op(*values)
    results = results if isinstance(results, tuple) else (results,)
    expected = unfused(task, dict(zip(task.tensors, values, strict=True)))
    assert len(results) == len(task.outputs)
    for result, wanted in zip(results, expected.values(), strict=True):
        assert result.dtype == wanted.dtype and torch.equal(result, wanted)
        assert result.data_ptr() not in {v.data_ptr() for v in values if isinstance(v, torch.Tensor)}


def test_inputs_by_keyword_and_what_is_missing(plain, sample):
    op = plain("sample_gated")
    x, w, rstd, alpha = values_of(sample("sample_gated"))
    by_name = op(x, w, alpha=alpha, rstd=rstd)
    assert torch.equal(by_name[0], op(x, w, rstd, alpha)[0])
    with pytest.raises(InputError, match="rstd is missing"):
        op(x, w)
    with pytest.raises(InputError, match="beta is not expected"):
        op(x, w, rstd, beta=1.0)
    with pytest.raises(InputError, match="x is not expected"):
        op(x, w, rstd, alpha, x=x)


def test_a_number_for_a_tensor_and_a_tensor_for_a_number_are_named(plain, sample):
    op = plain("sample_gated")
    x, w, rstd, alpha = values_of(sample("sample_gated"))
    with pytest.raises(InputError, match=r"rstd is a float; pass a tensor, \[M\] f32"):
        op(x, w, 1.0, alpha)
    with pytest.raises(InputError, match="alpha is a Tensor; pass a Python number"):
        op(x, w, rstd, torch.tensor(alpha))


def test_a_copied_model_keeps_its_operator(plain):
    op = plain("sample_gated")
    assert copy.deepcopy({"op": op})["op"] is op


@pytest.mark.filterwarnings("ignore:no admitted kernel")
def test_a_pickled_operator_and_model_load_their_kernels_again(plain, sample):
    op = plain("sample_gated")
    again = pickle.loads(pickle.dumps(op))
    assert again.qualified == op.qualified and again.task.digest == op.task.digest
    values = values_of(sample("sample_gated"))
    assert all(torch.equal(a, b) for a, b in zip(again(*values), op(*values), strict=True))
    layers = LlamaLayers(LlamaBlock(LlamaShape(32, 48, 4, 2, 8), i) for i in range(2))
    x, angles = torch.randn(1, 6, 32), (torch.ones(6, 8), torch.zeros(6, 8))
    assert torch.equal(pickle.loads(pickle.dumps(layers))(x, *angles), layers(x, *angles))


def test_an_accumulated_output_is_written_in_place(plain, sample):
    op = plain("sample_accumulate")
    dy, w, dx = values_of(sample("sample_accumulate"))
    before = dx.clone()
    sums, result = op(dy, w, dx)
    assert result is dx and torch.equal(dx, before + dy @ w)
    assert torch.equal(sums, (dy @ w).float().sum(-1))


def test_an_operator_whose_only_output_is_added_to_returns_it(plain, sample):
    dy, x, dw = values_of(sample("sample_add"))
    before = dw.clone()
    assert plain("sample_add")(dy, x, dw) is dw
    assert torch.equal(dw, before + dy.T @ x)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"w": torch.zeros(16, 8, dtype=torch.bfloat16)}, r"w has shape \[16, 8\], and x says K = 16"),
        ({"rstd": torch.ones(1)}, r"rstd has shape \[1\], and x says M = 5"),
        ({"rstd": torch.ones(5, 1)}, r"rstd has shape \[5, 1\]; give it the shape \[M\]"),
        ({"w": torch.zeros(15, 16, dtype=torch.bfloat16)}, "2F = 15 is no multiple of 2"),
    ],
)
def test_sizes_that_disagree_are_an_error_and_never_broadcast(plain, sample, change, says):
    task = sample("sample_gated")
    inputs = dict(zip(task.tensors, values_of(task), strict=True))
    with pytest.raises(InputError, match=says):
        plain("sample_gated")(**{**inputs, **change})


@pytest.mark.parametrize("name", ["sample_gated", "sample_select", "sample_accumulate", "sample_add", "sample_alias"])
def test_opcheck_is_clean(plain, sample, name):
    task, op = sample(name), plain(name)
    values = values_of(task)
    torch.library.opcheck(op.overload, tuple(values))
    if not task.accumulates:
        for value in values:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.requires_grad_()
        torch.library.opcheck(op.overload, tuple(values))


@pytest.mark.parametrize("name", ["sample_gated", "sample_accumulate", "sample_add"])
def test_compile_fullgraph_with_dynamic_shapes(plain, sample, name):
    task, op = sample(name), plain(name)
    torch._dynamo.reset()
    graphs = []

    def backend(module, example):
        graphs.append(module)
        return module

    compiled = torch.compile(lambda *values: op(*values), fullgraph=True, dynamic=True, backend=backend)
    for m in (5, 7, 12):
        values = values_of(task, M=m)
        expected = op(*[v.clone() if isinstance(v, torch.Tensor) else v for v in values])
        assert all(torch.equal(a, b) for a, b in zip(compiled(*values), expected, strict=True))
    assert len(graphs) == 1


def test_compile_differentiates(plain, sample):
    op = plain("sample_gated")
    torch._dynamo.reset()
    x, w, rstd, alpha = values_of(sample("sample_gated"))
    gradients = []
    for function in (op, torch.compile(op, fullgraph=True, backend="aot_eager")):
        leaves = [v.clone().requires_grad_() for v in (x, w, rstd)]
        o, total = function(*leaves, alpha)
        gradients.append(torch.autograd.grad(o.float().square().sum() + total.sum(), leaves))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_the_gradient_is_that_of_the_reference(plain, sample, which):
    task, op = sample("sample_gated"), plain("sample_gated")
    x, w, rstd, alpha = values_of(task)
    found = []

    def reference(*values):
        results = task.reference(*values)
        return results["o"].to(torch.bfloat16), results["total"]

    for function in (op, reference):
        leaves = [v.clone().requires_grad_() for v in (x, w, rstd)]
        results = function(*leaves, alpha)
        loss = sum(results[i].float().square().sum() for i in which)
        found.append(torch.autograd.grad(loss, leaves))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))


def test_only_the_inputs_that_ask_for_a_gradient_get_one(plain, sample):
    x, w, rstd, alpha = values_of(sample("sample_gated"))
    w.requires_grad_()
    plain("sample_gated")(x, w, rstd, alpha)[1].sum().backward()
    assert w.grad.shape == w.shape and x.grad is None and rstd.grad is None


def test_second_derivatives_are_right(plain):
    op = plain("sample_gated")
    generator = torch.Generator().manual_seed(1)
    x, w, rstd = (torch.rand(s, generator=generator, dtype=torch.float64) for s in ((3, 4), (4, 4), (3,)))
    leaves = [v.requires_grad_() for v in (x, w, rstd)]
    # The row sum is declared float32: too coarse for finite differences, so only the first output.
    assert torch.autograd.gradcheck(lambda *v: op(*v, 0.7)[0], leaves)
    assert torch.autograd.gradgradcheck(lambda *v: op(*v, 0.7)[0], leaves)


def test_writing_in_place_has_no_gradient_and_says_so(plain, sample):
    dy, w, dx = values_of(sample("sample_accumulate"))
    with pytest.raises(RuntimeError, match="adds to dx in place and has no gradient"):
        plain("sample_accumulate")(dy.requires_grad_(), w, dx)


def test_autocast_casts_the_storage_dtype_and_nothing_else(plain, sample):
    x, w, rstd, alpha = values_of(sample("sample_gated"))
    op = plain("sample_gated")
    with torch.autocast("cpu", torch.bfloat16):
        o, total = op(x.float(), w.float(), rstd, alpha)
    assert o.dtype == torch.bfloat16 and total.dtype == torch.float32
    assert torch.equal(o, op(x, w, rstd, alpha)[0])


def test_the_kernel_runs_where_it_may(fake_kernel, sample, evaluation):
    task = sample("sample_gated")
    admit(evaluation(task), task, author="x")
    op = load(task, strict=True)
    values = values_of(task)
    o, total = op(*values)
    wanted = unfused(task, dict(zip(task.tensors, values, strict=True)))
    torch.testing.assert_close(o, wanted["o"], rtol=2e-2, atol=2e-2)
    assert total.dtype == torch.float32 and total.shape == (5,)
    assert len(fake_kernel) == 1 and op.why_not(*values) is None
    torch.library.opcheck(op.overload, tuple(values))


def test_the_kernel_accumulates_in_place(fake_kernel, sample, evaluation):
    task = sample("sample_accumulate")
    admit(evaluation(task), task, author="x")
    dy, w, dx = values_of(task)
    before = dx.clone()
    sums, result = load(task)(dy, w, dx)
    assert fake_kernel and result is dx
    torch.testing.assert_close(dx, before + dy @ w, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(sums, (dy @ w).float().sum(-1), rtol=2e-2, atol=5e-2)


def _tuned(monkeypatch, best):
    from codasmith.verified_kernels import admission

    monkeypatch.setattr(admission, "best_of", lambda verdict: tuple(Best(sizes=s, schedule=n) for s, n in best))


def test_the_schedule_of_the_nearest_tuned_shape_runs(fake_kernel, sample, evaluation, monkeypatch):
    task, (first, second) = sample("sample_select"), (s.name for s in SCHEDULES[:2])
    _tuned(monkeypatch, [({"M": 8, "N": 32, "K": 16}, second), ({"M": 4096, "N": 32, "K": 16}, first)])
    admit(evaluation(task), task, author="x")
    op = load(task)
    for m in (8, 16, 2000):
        op(*values_of(task, M=m))
    assert fake_kernel == [second, second, first]


def test_batch_invariance_pins_the_schedule_that_wins_most(fake_kernel, sample, evaluation, monkeypatch):
    task, (first, second) = sample("sample_select"), (s.name for s in SCHEDULES[:2])
    shapes = [{"M": m, "N": 32, "K": 16} for m in (8, 64, 4096)]
    _tuned(monkeypatch, [(shapes[0], first), (shapes[1], second), (shapes[2], second)])
    admit(evaluation(task), task, author="x")
    op = load(task, batch_invariant=True)
    for m in (8, 64, 4096):
        op(*values_of(task, M=m))
    assert set(fake_kernel) == {second}
    monkeypatch.setattr(runner.template, "refuse", lambda signature, inputs: "M is odd")
    with pytest.raises(OutsideDomain, match=r"M is odd .*batch invariance"):
        op(*values_of(task, M=9))


def test_another_dtype_takes_the_entry_that_was_verified_for_it(fake_kernel, sample, evaluation):
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    op = load(task)
    values = values_of(task, storage="fp16")
    assert "x is fp16, and the kernel was verified for bf16" in op.why_not(*values)
    admit(evaluation(task, source="# for fp16\n", storage="fp16", timing={"tax": 2.0}), task, author="x")
    assert load(task).why_not(*values) is None


def test_outside_its_domain_it_warns_once_and_strict_raises(sample, evaluation):
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    values = values_of(task)
    op = load(task)
    with pytest.warns(
        FallbackWarning, match=r"sample_select runs its unfused reference: the tensors are on cpu"
    ) as told:
        result = op(*values)
    assert [w.filename for w in told] == [__file__]  # the user's line, not the operator's own
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(op(*values_of(task)), result)
        op(*values_of(task, M=9))
    with pytest.raises(OutsideDomain, match="sample_select: the tensors are on cpu"):
        load(task, strict=True)(*values)


def test_an_object_that_cannot_be_loaded_falls_back_and_says_why(sample, evaluation, monkeypatch):
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    monkeypatch.setattr(runner, "_no_hopper", lambda device: None)
    monkeypatch.setattr(runner.template, "refuse", lambda signature, inputs: None)
    values = values_of(task)
    with pytest.raises(OutsideDomain, match="cannot be loaded"):  # these bytes are no library
        load(task, strict=True)(*values)
    assert "cannot be loaded" in load(task).why_not(*values)


def test_a_changed_cached_library_is_unpacked_anew(fake_kernel, sample, evaluation, homes):
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    load(task)(*values_of(task))
    (cached,) = (homes / "cache/libraries").glob("*.so")
    whole = cached.read_bytes()
    cached.write_bytes(b"\x7fELF something else")
    load(task)(*values_of(task))
    assert cached.read_bytes() == whole


def test_decisions_do_not_grow_without_bound(fake_kernel, sample, evaluation, monkeypatch):
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    monkeypatch.setattr(runner, "REMEMBERED", 3)
    op = load(task)
    for m in range(1, 9):
        op(*values_of(task, M=m))
    assert len(fake_kernel) == 8 and len(op._runner._plans) <= 3


def test_names_are_found_or_the_nearest_is_suggested(sample, evaluation):
    task = sample("sample_select")
    entry = admit(evaluation(task), task, author="x")
    assert load("sample_select").entry == entry  # by name, though the catalogue does not have it
    assert load(f"sample_select/{entry.record.digest[:8]}").entry == entry
    with pytest.raises(UnknownKernel, match="did you mean sample_select"):
        load("sample_selekt")
    with pytest.raises(UnknownKernel, match="no admitted kernel answers sample_select/0000"):
        load("sample_select/0000")
    with pytest.raises(UnknownKernel, match="did you mean rmsnorm_swiglu"):
        load("rmsnorm_swigl")
    with pytest.raises(UnknownKernel, match="'nosuch'; the names: codasmith kernels list"):
        load("nosuch")


def test_without_a_kernel_strict_raises(sample):
    for option in ("strict", "batch_invariant"):
        with pytest.raises(RegistryError, match=f"answers sample_alias; without {option} the reference runs$"):
            load(sample("sample_alias"), **{option: True})


def test_a_kernel_of_an_earlier_task_does_not_count(sample, evaluation, tmp_path):
    task = sample("sample_select")
    admit(evaluation(task), task, author="x")
    text = task.path.read_text().replace('return {"picked": (x @ w.T)', 'return {"picked": 2 * (x @ w.T)')
    (tmp_path / "edited.py").write_text(text)
    edited = sample.__globals__["load_task"](f"{tmp_path / 'edited.py'}:sample_select")
    assert edited.digest != task.digest
    with pytest.warns(FallbackWarning):  # what torch.compile keeps on disk by an operator's name is another's
        assert load(edited).qualified != load(task).qualified == f"sample_select_{task.digest[:8]}"
    with pytest.raises(RegistryError, match="answers an earlier version of sample_select"):
        load(edited, strict=True)
    # Both versions stay usable in one process.
    with pytest.warns(FallbackWarning):
        values = values_of(task)
        assert torch.equal(load(edited)(*values), 2 * load(task)(*values))
