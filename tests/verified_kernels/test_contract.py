"""What an operator promises, for every kind of kernel: on a CPU by references, on a Hopper GPU by shipped kernels."""

import warnings
from pathlib import Path

import pytest
import torch
from codasmith.tasks import ProgramTask, Workload, draw, oracle, shipped_task, unfused
from codasmith.verified_kernels import FallbackWarning, OutsideDomain, load, store
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:.*runs its unfused reference", "ignore:.*no admitted kernel")
SHIPPED = Path(store.__file__).parent / "kernels"
KINDS = {
    "rmsnorm_swiglu": "pairs, one narrow output",
    "residual_partial_rmsnorm": "several outputs and a row sum",
    "linear_lse": "a running reduction",
    "linear_accumulate": "added to in place",
    "mlp_swiglu": "a program with its backward program",
    "linear_cross_entropy": "a program with a formula, and whole numbers",
}
WITHOUT_COMPARING = ("test_faketensor", "test_autograd_registration")
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")]
DEVICES = ["cpu", pytest.param("cuda", marks=on_gpu)]
SHIPPED_NAMES = sorted(
    p.name for p in SHIPPED.iterdir() if p.is_dir() and not isinstance(shipped_task(p.name), ProgramTask)
)


@pytest.fixture(autouse=True)
def shipped(homes, monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)
    torch._dynamo.reset()


def loaded(name, device):
    """On a GPU the kernel or an error, elsewhere the reference."""
    return load(name, strict=device == "cuda")


def drawn(task, device, rows=None, seed=0):
    sizes = task.default_sizes(512 if device == "cuda" else 32)
    sizes |= {} if rows is None else {"M": rows}
    return draw(task, Workload(sizes=sizes, seed=seed, storage=task.usual_storage), device)


def called(op, inputs):
    """The outputs in a row; what is added to is a copy."""
    results = op(**{k: v.clone() if k in op.task.accumulates else v for k, v in inputs.items()})
    return results if isinstance(results, tuple) else (results,)


def check(task, inputs, results):
    """Within twice the unfused path's own error, plus one unit in the last place of the output's scale."""
    exact, plain = oracle(task, inputs), unfused(task, inputs)
    for (name, truth), result in zip(exact.items(), results, strict=True):
        budget = (plain[name].double() - truth).abs().max() * 2 + truth.abs().max() * 2**-8
        assert (result.double() - truth).abs().max() <= budget, name


def equal(ones, others):
    return all(torch.equal(a, b) for a, b in zip(ones, others, strict=True))


def graded(op, inputs, call):
    """The gradients of all float inputs, of the sum of the squares of the first output."""
    leaves = {k: v.clone().requires_grad_() if _float(v) else v for k, v in inputs.items()}
    results = call(op, leaves)
    first = results[0] if isinstance(results, tuple) else results
    wanted = [v for v in leaves.values() if _float(v)]
    return torch.autograd.grad(first.float().square().sum(), wanted, allow_unused=True)


def _float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KINDS)
def test_compiled_whole_it_takes_any_number_of_rows_by_one_graph(name, device):
    op, graphs = loaded(name, device), []

    def backend(module, example):
        graphs.append(module)
        return module

    compiled = torch.compile(lambda **inputs: op(**inputs), fullgraph=True, dynamic=True, backend=backend)
    with torch.no_grad():
        for rows in (24, 40, 104):
            inputs = drawn(op.task, device, rows)
            given = {k: v.clone() if k in op.task.accumulates else v for k, v in inputs.items()}
            found = compiled(**given)
            assert equal(found if isinstance(found, tuple) else (found,), called(op, inputs))
    assert len(graphs) == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [n for n in KINDS if n != "linear_accumulate"])
def test_under_inference_mode_checkpoint_and_autocast_the_answers_stay(name, device):
    op = loaded(name, device)
    inputs = drawn(op.task, device)
    with torch.no_grad():
        expected = called(op, inputs)
    with torch.inference_mode():
        results = called(op, inputs)
    assert equal(results, expected) and all(r.is_inference() for r in results)
    wide = {k: v.float() if _float(v) else v for k, v in inputs.items()}
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        results = called(op, wide)
    assert equal(results, expected) and [r.dtype for r in results] == [e.dtype for e in expected]
    plain = graded(op, inputs, lambda op, leaves: op(**leaves))
    again = graded(op, inputs, lambda op, leaves: checkpoint(lambda: op(**leaves), use_reentrant=False))
    assert any(g is not None for g in plain)
    for one, other in zip(plain, again, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * one.abs().max().item())


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED_NAMES)
def test_opcheck_is_clean_of_every_operator(name):
    checked(loaded(name, "cpu"), "cpu")


@pytest.mark.parametrize("name", SHIPPED_NAMES)
@pytest.mark.parametrize("device", DEVICES[1:])
def test_opcheck_is_clean_of_every_kernel(name, device):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        checked(loaded(name, device), device)


def checked(op, device):
    inputs = drawn(op.task, device)
    if op.task.usual_storage == "fp8":  # whose elements opcheck's other tests would compare, which torch cannot
        torch.library.opcheck(op.overload, tuple(inputs.values()), test_utils=WITHOUT_COMPARING)
        return
    torch.library.opcheck(op.overload, tuple(inputs.values()))
    if not op.task.accumulates:
        leaves = tuple(v.requires_grad_() if _float(v) else v for v in inputs.values())
        torch.library.opcheck(op.overload, leaves, test_utils=("test_autograd_registration", "test_faketensor"))


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("name", KINDS)
def test_it_runs_on_the_current_stream(name, device):
    op = loaded(name, device)
    inputs, stream = drawn(op.task, device), torch.cuda.Stream()
    called(op, inputs)
    late = {k: torch.zeros_like(v) for k, v in inputs.items()}
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        for k, v in inputs.items():
            late[k].copy_(v)
        results = called(op, late)
    stream.synchronize()
    check(op.task, inputs, results)


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("name", KINDS)
def test_nothing_waits_for_the_gpu(name, device):
    op = loaded(name, device)
    inputs = drawn(op.task, device)
    backward = not op.task.accumulates
    called(op, inputs)
    if backward:
        graded(op, inputs, lambda op, leaves: op(**leaves))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        results = called(op, inputs)
        if backward:
            graded(op, inputs, lambda op, leaves: op(**leaves))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    check(op.task, inputs, results)


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("name", KINDS)
def test_a_cuda_graph_replays_it_on_fresh_content(name, device):
    op = loaded(name, device)
    held, fresh = drawn(op.task, device, seed=1), drawn(op.task, device, seed=2)
    with torch.no_grad():
        called(op, held)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = called(op, held)
    for k, v in fresh.items():
        held[k].copy_(v)
    graph.replay()
    check(op.task, fresh, results)


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("name", KINDS)
def test_double_precision_is_refused_or_the_references_and_said(name, device):
    op = loaded(name, device)
    inputs, tensors = drawn(op.task, device), op.task.tensors
    wide = {k: v.double() if _float(v) and tensors[k].dtype is None else v for k, v in inputs.items()}
    with pytest.raises(OutsideDomain, match=r"is f64, and the kernel was verified for .*convert it"):
        called(op, wide)
    with pytest.warns(FallbackWarning, match="is f64"):
        called(load(name), wide)


@pytest.mark.parametrize("device", DEVICES[1:])
def test_outside_the_domain_strict_says_why(device):
    op = loaded("rmsnorm_swiglu", device)
    inputs = drawn(op.task, device)
    with pytest.raises(OutsideDomain, match="contiguous"):
        op(**{**inputs, "x": inputs["x"].t().contiguous().t()})
    with pytest.raises(OutsideDomain, match="wide, and that must be a multiple of 8"):
        op(**{**inputs, **{k: inputs[k][:, :12].contiguous() for k in ("x", "w")}})
