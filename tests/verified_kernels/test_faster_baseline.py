"""Where the record says that a baseline was faster, it runs; nowhere else, and never where bits are promised."""

import warnings
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from codasmith.tasks import Workload, draw
from codasmith.tasks import unfused as plain
from codasmith.tasks.tensor import DTYPES
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import admit, load, store, unfused
from codasmith.verified_kernels.choice import COMPILED, EAGER, faster

TIMED = {"M": 5, "N": 24, "K": 16}
BELOW, ACROSS, ABOVE = (
    {"value": v, "low": low, "high": high} for v, low, high in ((0.9, 0.88, 0.92), (0.98, 0.95, 1.01), (1.2, 1.1, 1.3))
)


@pytest.fixture
def task(sample):
    return sample("sample_alias")


@pytest.fixture
def timed(evaluation, task):
    """Admits a kernel that stood so to its baselines on one workload; its tax orders it among others."""

    def make(over_eager, over_compile, source="# a\n", tax=1.05, sizes=TIMED, task=task, storage="bf16"):
        row = {
            "workload": Workload(sizes=sizes, storage=storage).model_dump(mode="json"),
            "schedule": SCHEDULES[0].name,
            "milliseconds": {"kernel": 1.0},
            "over_eager": over_eager,
            "over_compile": over_compile,
        }
        given = evaluation(task, source=source, storage=storage, timing={"tax": tax, "workloads": [row]})
        return admit(given, task, author="x")

    return make


def values_of(task, **sizes):
    inputs = draw(task, Workload(sizes={**TIMED, **sizes}))
    return [inputs[name] for name in task.tensors]


def expected(task, values):
    return tuple(plain(task, dict(zip(task.tensors, values, strict=True))).values())


@pytest.mark.parametrize(
    ("over_eager", "over_compile", "names"),
    [
        (ABOVE, BELOW, [COMPILED]),
        (BELOW, ABOVE, [EAGER]),
        (BELOW, BELOW, [EAGER, COMPILED]),
        (ACROSS, ACROSS, []),
        (ABOVE, None, []),
        (None, {"value": 0.5}, []),  # without an interval nothing is beyond doubt
    ],
)
def test_a_baseline_is_faster_where_the_whole_interval_says_so(timed, over_eager, over_compile, names):
    evidence = timed(over_eager, over_compile).record.of("bf16")
    assert list(faster(evidence, TIMED)) == names
    assert faster(evidence, {**TIMED, "M": 6}) == {}


def test_where_the_reference_was_faster_it_runs_without_a_warning_and_says_why(fake_kernel, task, timed):
    timed(BELOW, ABOVE)
    op, values = load(task), values_of(task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [op(*values) for _ in range(3)]
    assert not fake_kernel
    assert all(torch.equal(a, b) for r in results for a, b in zip(r, expected(task, values), strict=True))
    said = op.explain(*values)
    assert said == (
        "sample_alias runs its unfused reference: the reference is faster here, "
        "the kernel was measured at 0.900 [0.880, 0.920] times its speed"
    )
    assert op.why_not(*values) in said
    op(*values_of(task, M=6))
    assert len(fake_kernel) == 1


def test_gradients_of_what_runs_the_reference_are_its_own(fake_kernel, task, timed):
    timed(BELOW, ABOVE)
    op, (x, w, residual) = load(task), values_of(task)
    found = []
    for function in (op, lambda *v: tuple(task.reference(*v).values())):
        leaves = [v.clone().requires_grad_() for v in (x, w, residual)]
        y, same = function(*leaves)
        found.append(torch.autograd.grad(y.float().square().sum() + same.sum(), leaves))
    assert not fake_kernel and all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_who_asked_for_the_kernel_alone_or_for_equal_bits_gets_the_kernel(fake_kernel, task, timed):
    timed(BELOW, BELOW)
    values = values_of(task)
    for op in (load(task, strict=True), load(task, batch_invariant=True)):
        op(*values)
        assert targets(op, values) == [f"codasmith.{op.qualified}.default"]
        said = op.explain(*values)
        assert said.startswith("sample_alias runs sample_alias/") and "torch.compile" not in said
    assert len(fake_kernel) > 1


def test_another_entry_that_was_not_slower_goes_first(fake_kernel, task, timed):
    timed(BELOW, BELOW, source="# best on average\n", tax=1.0)
    other = timed(ABOVE, ABOVE, source="# better here\n", tax=1.3)
    op = load(task)
    op(*values_of(task))
    assert fake_kernel and other.name in op.explain(*values_of(task))
    first = op.explain(*values_of(task, M=6))
    assert op.entry.name in first and op.entry.source == "# best on average\n"


def targets(function, values, dynamic=False):
    """What torch.compile would compile: the operators of the traced graph."""
    torch._dynamo.reset()
    seen = []

    def backend(module, example):
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        def compiler(graph, inputs):
            seen.extend(str(n.target) for n in graph.graph.nodes if n.op == "call_function")
            return make_boxed_func(graph.forward)

        return aot_autograd(fw_compiler=compiler)(module, example)

    results = torch.compile(lambda *v: function(*v), fullgraph=True, dynamic=dynamic, backend=backend)(*values)
    kept = expected(function.task, values)
    for one, two in zip(results, kept, strict=True):
        torch.testing.assert_close(one, two, rtol=2e-2, atol=2e-2)
        assert one.data_ptr() not in {v.data_ptr() for v in values}
    return [t for t in seen if t.startswith("codasmith")] or seen


def test_where_only_the_compiler_was_faster_it_gets_the_reference_and_others_the_kernel(fake_kernel, task, timed):
    timed(ABOVE, BELOW)
    op, values = load(task), values_of(task)
    op(*values)
    assert len(fake_kernel) == 1
    said = op.explain(*values)
    assert said.endswith(
        "; traced by torch.compile, it leaves the reference to the compiler: that is faster here, "
        "the kernel was measured at 0.900 [0.880, 0.920] times its speed"
    )
    inlined = targets(op, values)
    assert "aten.mm.default" in inlined and len(fake_kernel) == 1
    assert targets(op, values_of(task, M=6)) == [f"codasmith.sample_alias_{task.digest[:8]}.default"]
    assert targets(op, values, dynamic=True) == [f"codasmith.sample_alias_{task.digest[:8]}.default"]


def test_where_eager_alone_was_faster_the_operator_stays_in_the_trace(fake_kernel, task, timed):
    timed(BELOW, ABOVE)
    assert (
        targets(load(task), values_of(task)) == [f"codasmith.sample_alias_{task.digest[:8]}.default"]
        and not fake_kernel
    )


@pytest.mark.parametrize("name, rows", [("sample_accumulate", 5), ("sample_add", 8)])
def test_inlined_it_adds_in_place(fake_kernel, sample, timed, name, rows):
    task, sizes = sample(name), {"M": rows, "N": 24, "K": 16}
    timed(ABOVE, BELOW, sizes=sizes, task=task)
    op, inputs = load(task), draw(task, Workload(sizes=sizes))
    torch._dynamo.reset()
    found = []
    for function in (lambda *v: op(*v), torch.compile(lambda *v: op(*v), fullgraph=True, backend="aot_eager")):
        values = {n: v.clone() for n, v in inputs.items()}
        with torch.no_grad():
            results = function(*values.values())
        found.append(results if isinstance(results, tuple) else (results,))
        assert any(r is values[task.accumulates[0]] for r in found[-1])
    torch.testing.assert_close(*found, rtol=2e-2, atol=2e-2)


def test_inlined_it_differentiates(fake_kernel, sample, timed):
    task = sample("sample_gated")
    timed(ABOVE, BELOW, sizes={"M": 5, "F": 8, "K": 16}, task=task)
    op = load(task)
    inputs = draw(task, Workload(sizes={"M": 5, "F": 8, "K": 16}))
    torch._dynamo.reset()
    found = []
    for function in (
        lambda *v: tuple(unfused.compute(task, v).values()),
        torch.compile(lambda *v: op(*v), fullgraph=True, backend="aot_eager"),
    ):
        leaves = [inputs[n].clone().requires_grad_() for n in ("x", "w", "rstd")]
        o, total = function(*leaves, inputs["alpha"])
        found.append(torch.autograd.grad(o.float().square().sum() + total.sum(), leaves))
    assert not fake_kernel
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_traces_that_are_not_for_torch_compile_keep_the_operator(fake_kernel, task, timed):
    timed(ABOVE, BELOW)
    op, values = load(task), values_of(task)
    from torch.fx.experimental.proxy_tensor import make_fx

    names = [str(n.target) for n in make_fx(lambda *v: op(*v))(*values).graph.nodes]
    assert f"codasmith.sample_alias_{task.digest[:8]}.default" in names

    class Module(torch.nn.Module):
        def forward(self, *v):
            return op(*v)

    exported = torch.export.export(Module(), tuple(values))
    assert f"codasmith.sample_alias_{task.digest[:8]}.default" in [str(n.target) for n in exported.graph.nodes]
    torch.library.opcheck(op.overload, tuple(values))


@pytest.mark.parametrize(("over_eager", "over_compile"), [(BELOW, ABOVE), (ABOVE, BELOW)])
def test_a_reference_on_fp8_operands_that_runs_in_a_kernels_place_multiplies_them(
    fake_kernel, sample, timed, monkeypatch, over_eager, over_compile
):
    """By `torch._scaled_mm`: as the same numbers in bf16 it would be slower than the kernel that it replaces."""
    task = sample("sample_alias_fp8")
    timed(over_eager, over_compile, task=task, storage="fp8")
    monkeypatch.setattr(unfused, "takes", lambda operands: True)  # as on a GPU
    op, inputs = load(task), draw(task, Workload(sizes=TIMED, storage="fp8"))
    values = tuple(inputs[name] for name in task.tensors)
    if over_eager is BELOW:
        product = Mock(side_effect=torch._scaled_mm)
        monkeypatch.setattr(torch, "_scaled_mm", product)
        op(*values)
        assert not fake_kernel and product.call_count == 1
    else:
        op(*values)
        found = targets(op, values)
        assert "aten._scaled_mm.default" in found and "aten.mm.default" not in found and len(fake_kernel) == 1


@pytest.mark.parametrize("name", ["linear_bias", "linear_router_sigmoid_fp8"])
def test_a_shipped_kernel_is_given_away_where_its_record_says_so(monkeypatch, name):
    monkeypatch.setattr(store, "SHIPPED", Path(store.__file__).parent / "kernels")
    op, pinned = load(name), load(name, batch_invariant=True)
    task, evidence = op.task, op.entry.record.of(op.task.usual_storage)
    known = [w.workload.sizes for w in evidence.workloads if any(t.over_compile for t in w.timings)]
    given = [sizes for sizes in known if COMPILED in faster(evidence, sizes)]
    assert given
    for sizes in known:
        with torch._subclasses.FakeTensorMode():
            values = tuple(
                torch.empty(t.size(sizes), dtype=DTYPES[task.dtype_of(n, task.usual_storage)])
                for n, t in task.tensors.items()
            )
            assert bool(op._runner.traced(values)) is (sizes in given) and not pinned._runner.traced(values)
