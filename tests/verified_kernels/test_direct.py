"""A repeated call goes straight to the kernel, unless something watches; either way the results are the same."""

import pytest
import torch
from codasmith.tasks import Workload, draw
from codasmith.verified_kernels import FallbackWarning, InputError, OutsideDomain, admit, load, watched
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

SIZES = {"M": 5, "F": 8, "N": 24, "K": 16}


@pytest.fixture
def op(fake_kernel, sample, evaluation):
    task = sample("sample_gated")
    admit(evaluation(task), task, author="x")
    return load(task, strict=True)


@pytest.fixture
def values(op):
    inputs = draw(op.task, Workload(sizes={s: SIZES[s] for s in op.task.symbols}))
    return [inputs[name] for name in op.task.tensors]


@pytest.fixture
def dispatched(op, monkeypatch):
    """Counts the calls that went through the dispatcher."""
    calls, overload = [], op.overload
    monkeypatch.setattr(op, "overload", lambda *v: (calls.append(1), overload(*v))[1])
    return calls


def test_the_kind_seen_last_is_known_without_looking_it_up(op, values, monkeypatch):
    first = op(*values)
    op(*values)
    monkeypatch.setattr(type(op._runner), "_key", lambda self, values: pytest.fail("looked up"))
    assert torch.equal(op(*values)[0], first[0])


def test_without_the_guard_calls_are_looked_up(op, values, dispatched, monkeypatch):
    monkeypatch.setattr(watched, "TensorGuards", lambda *a: None)  # raises TypeError for the keywords
    assert torch.equal(op(*values)[0], op(*values)[0])
    assert torch.equal(op(*values)[0], op(*values)[0]) and len(dispatched) == 1


def test_alternating_kinds_keep_their_answers(op, values, dispatched):
    x, w, rstd, alpha = values
    kinds = [(x, w, rstd, alpha), (x[:2], w, rstd[:2], alpha), (x, w, rstd, alpha + 1)]
    expected = [op(*kind)[0] for kind in kinds]
    for _ in range(3):
        assert all(torch.equal(op(*kind)[0], e) for kind, e in zip(kinds, expected, strict=True))
    assert len(dispatched) == 2


def test_the_second_call_skips_the_dispatcher_and_answers_the_same(op, values, dispatched):
    results = [op(*values) for _ in range(3)]
    assert len(dispatched) == 1
    assert all(torch.equal(a, b) for r in results[1:] for a, b in zip(r, results[0], strict=True))
    assert op(values[0], values[1], alpha=values[3], rstd=values[2])[0].equal(results[0][0])
    assert len(dispatched) == 1


def test_other_shapes_strides_and_dtypes_are_other_kinds(op, values, dispatched):
    x, w, rstd, alpha = values
    op(*values)
    op(torch.cat((x, x)), w, torch.cat((rstd, rstd)), alpha)
    op(x.t().contiguous().t(), w, rstd, alpha)
    op(x, w, torch.ones(9)[4:], alpha)  # another alignment
    assert len(dispatched) == 4


def test_wrong_kinds_are_named_in_a_repeated_call_too(op, values):
    x, w, rstd, alpha = values
    op(*values)
    with pytest.raises(ValueError, match="alpha is a Tensor; pass a Python number"):
        op(x, w, rstd, torch.tensor(alpha))
    with pytest.raises(ValueError, match="rstd is a float; pass a tensor"):
        op(x, w, 1.0, alpha)


def test_the_gradient_of_a_repeated_call_is_that_of_the_first(op, values, dispatched):
    found = []
    for _ in range(2):
        leaves = [v.clone().requires_grad_() for v in values[:3]]
        o, total = op(*leaves, values[3])
        found.append(torch.autograd.grad(o.float().square().sum() + total.sum(), leaves))
    assert len(dispatched) == 1 and all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    with torch.no_grad():
        assert not op(*leaves, values[3])[0].requires_grad
    parameter = torch.nn.Parameter(values[1])
    assert all(op(values[0], parameter, *values[2:])[0].requires_grad for _ in range(2))


class Sees(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Counts(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_modes_and_the_profiler_see_the_operator(op, values, dispatched):
    op(*values)
    with Sees() as mode:
        op(*values)
    assert f"codasmith.{op.qualified}.default" in mode.names
    with Counts():
        op(*values)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        op(*values)
    assert f"codasmith::{op.qualified}" in {e.name for e in profile.events()}
    assert len(dispatched) == 4


def test_autocast_casts_in_a_repeated_call_too(op, values):
    x, w, rstd, alpha = values
    expected = op(*values)[0]
    with torch.autocast("cpu", torch.bfloat16):
        results = [op(x.float(), w.float(), rstd, alpha)[0] for _ in range(2)]
    assert all(r.dtype == torch.bfloat16 and torch.equal(r, expected) for r in results)


def test_transforms_and_tracing_go_through_the_dispatcher(op, values):
    x, w, rstd, alpha = values
    op(*values)
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x: op(x, w, rstd, alpha)[0])(x)
    assert any(op.qualified in str(n.target) for n in traced.graph.nodes)
    torch._dynamo.reset()
    named = dict(zip(op.task.tensors, values, strict=True))
    for call in (lambda: op(*values)[0], lambda: op(**named)[0]):
        assert torch.equal(torch.compile(call, fullgraph=True, backend="eager")(), op(*values)[0])


def test_transforms_of_torch_func_are_refused_with_a_sentence(op, values):
    x, w, rstd, alpha = values
    op(*values)
    batch = x.expand(3, *x.shape)
    with pytest.raises(InputError, match=r"no rule for torch.func \(vmap\); for vmap, make the batch part of the rows"):
        torch.vmap(lambda v: op(v, w, rstd, alpha)[0])(batch)
    with pytest.raises(InputError, match=r"torch.func \(grad\).*\.backward\(\)"):
        torch.func.grad(lambda v: op(v, w, rstd, alpha)[1].sum())(x)


def test_double_precision_is_refused_or_runs_the_reference_and_says_so(op, values):
    x, w, rstd, alpha = values
    wide = x.double(), w.double(), rstd, alpha
    reason = "x is f64, and the kernel was verified for bf16; convert it"
    assert op.why_not(*wide) == reason
    with pytest.raises(OutsideDomain, match=reason):
        op(*wide)
    with pytest.warns(FallbackWarning, match=reason):
        assert load(op.task)(*wide)[0].dtype == torch.float64


def test_forward_mode_is_refused_and_not_dropped(op, values):
    x, w, rstd, alpha = values
    op(*values)
    with forward_ad.dual_level(), pytest.raises((RuntimeError, NotImplementedError), match=r"jvp|forward"):
        op(forward_ad.make_dual(x, torch.ones_like(x)), w, rstd, alpha)


def test_a_tensor_subclass_is_not_taken_for_a_tensor(op, values, dispatched):
    class Tagged(torch.Tensor):
        pass

    op(*values)
    assert torch.equal(op(values[0].as_subclass(Tagged), *values[1:])[0], op(*values)[0])
    assert len(dispatched) == 2


def test_inference_mode_goes_straight_too(op, values, dispatched):
    expected = op(*values)
    with torch.inference_mode():
        result = [op(*values) for _ in range(4)][-1]
    assert len(dispatched) == 2 and torch.equal(result[0], expected[0]) and result[0].is_inference()


def test_adding_in_place_keeps_the_dispatcher(fake_kernel, sample, evaluation, monkeypatch):
    task = sample("sample_accumulate")
    admit(evaluation(task), task, author="x")
    adding, calls = load(task), []
    overload = adding.overload
    monkeypatch.setattr(adding, "overload", lambda *v: (calls.append(1), overload(*v))[1])
    inputs = draw(task, Workload(sizes={s: SIZES[s] for s in task.symbols}))
    for _ in range(2):
        adding(**inputs)
    assert len(calls) == len(fake_kernel) == 2


def test_autograd_notices_what_is_added_in_place(fake_kernel, sample, evaluation):
    task = sample("sample_accumulate")
    admit(evaluation(task), task, author="x")
    inputs = draw(task, Workload(sizes={s: SIZES[s] for s in task.symbols}))
    factor = torch.ones((), dtype=torch.bfloat16, requires_grad=True)
    loss = (inputs["dx"] * factor).sum()
    load(task)(**inputs)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
