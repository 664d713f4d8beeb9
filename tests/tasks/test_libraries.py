"""The library functions that tasks are timed against fit the library's own signatures, and return a task's outputs."""

import importlib.util
import inspect
from pathlib import Path

import pytest
import torch
from codasmith.tasks import Workload, accumulator, cast, draw, load_task

FILE = Path(__file__).parents[2] / "benchmarks" / "libraries.py"
SPEC = importlib.util.spec_from_file_location("libraries", FILE)
libraries = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(libraries)


@pytest.fixture
def bound(monkeypatch):
    """quack's functions as they are called, checked against their signatures, and not run."""
    from quack import gemm_interface

    calls = []

    def standing_in(name):
        signature = inspect.signature(getattr(gemm_interface, name))

        def call(*args, **kwargs):
            given = signature.bind(*args, **kwargs).arguments
            calls.append((name, given))
            assert given["A"].shape[1] == given["B"].shape[0], "the second operand is [K, N]"
            acc = (given["A"].float() @ given["B"].float()).bfloat16()
            return acc if name == "gemm_add" else (acc, acc)

        return call

    for name in ("gemm_act", "gemm_dact", "gemm_norm_act", "gemm_add"):
        monkeypatch.setattr(gemm_interface, name, standing_in(name))
    return calls


@pytest.mark.parametrize("name", libraries.FUNCTIONS)
def test_a_library_function_takes_the_tasks_inputs_and_gives_all_its_outputs(name, bound):
    task = load_task(name)
    inputs = draw(task, task.correctness_workloads()[0])
    for function in libraries.FUNCTIONS[name]:
        bound.clear()
        found = function(inputs, libraries._configs()[0] if function.tiles else None)
        assert set(found) == set(task.outputs) and function.library.startswith(("quack.", "torch."))
        if "cuBLASLt" in function.library:
            exact = task.reference(**libraries._own(task, inputs))["y"]
            torch.testing.assert_close(found["y"], exact, rtol=0.05, atol=0.05)
            continue
        ((called, given),) = bound
        own = [v for k, v in inputs.items() if isinstance(v, torch.Tensor) and k in task.operands]
        used = {v.data_ptr() for v in given.values() if isinstance(v, torch.Tensor)}
        assert all(v.data_ptr() in used for v in own), f"{called} is not given every operand"


def test_a_library_that_fails_is_recorded_and_harms_nothing(monkeypatch):
    def broken(inputs, config):
        raise ImportError("no such library")

    broken.library, broken.tiles = "nowhere", False
    task = load_task("linear_bias")
    monkeypatch.setattr(libraries, "draw", lambda task, workload, device: draw(task, workload))
    row = libraries._measure(task, task.correctness_workloads()[0], broken)
    assert row == {"failed": "ImportError: no such library"}


@pytest.mark.parametrize("name", libraries.IN_FP8)
def test_a_library_function_for_fp8_gives_all_outputs_of_the_task(name):
    task = load_task(name)
    inputs = draw(task, Workload(sizes={"M": 32, "N": 48, "K": 80}, storage="fp8"))
    own = dict(inputs)
    product = libraries._product(task, inputs)
    torch.testing.assert_close(product.double(), accumulator(task, cast(own, torch.float64)), rtol=2**-7, atol=1e-2)
    assert all(libraries._is_right(task, inputs, function, None) for function in libraries.IN_FP8[name])


def test_a_task_that_no_library_does_is_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["libraries.py", "linear_silu", "no_such_task"])
    with pytest.raises(SystemExit, match="no library function does 'no_such_task' in bf16"):
        libraries.main()
