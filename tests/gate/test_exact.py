"""Where equality with the oracle may be asked."""

from importlib.resources import files

import pytest
import torch
from codasmith.gate.exact import exact_outputs, is_polynomial
from codasmith.primitives import read
from codasmith.tasks import Tensor, Workload, catalogue, draw, oracle, task


@task(
    gemm="x @ w.T",
    x=Tensor("M K"),
    w=Tensor("N K"),
    b=Tensor("N", "f32"),
    out={"y": Tensor("M N", "f32"), "s": Tensor("M", "f32")},
)
def sums(x, w, b):
    """A product, and a row reduction of it."""
    y = (x @ w.T).float() + b
    return {"y": y, "s": (y * y).sum(-1)}


def graph(body, names="epilogue, row_sum, row_lse, exp, silu, relu, clamp, where, relu_sq"):
    lines = "\n".join(f"    {line}" for line in body.split("; "))
    source = f"from codasmith.primitives import {names}\n\n\n@epilogue\ndef f(acc, b):\n{lines}\n"
    return read(source, list(sums.operands.values()))


def integers(m=24, n=40, k=64):
    return draw(sums, Workload(sizes={"M": m, "N": n, "K": k}, family="integers"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("acc + b", True),
        ("acc * b - 0.5", True),
        ("relu(acc) + clamp(b, -1.0, 1.5)", True),
        ("where(acc > b, acc, b / 4.0)", True),
        ("relu_sq(acc)", True),
        ("acc * 0.1 + b", False),
        ("acc / 3.0 + b", False),
        ("acc / b", False),
        ("exp(acc)", False),
        ("silu(acc)", False),
    ],
)
def test_only_sums_products_and_choices_are_polynomial(expression, expected):
    assert is_polynomial(graph(f'return {{"y": {expression}, "s": row_sum(acc)}}')) is expected


def test_sums_of_squares_of_small_whole_numbers_are_exact():
    assert exact_outputs(sums, graph('y = acc + b; return {"y": y, "s": row_sum(y, y)}'), integers()) == {"y", "s"}


def test_an_output_counts_by_what_leads_to_it():
    assert exact_outputs(sums, graph('y = acc + b; return {"y": y, "s": row_lse(y)}'), integers()) == {"y"}


def test_nothing_is_claimed_once_a_sum_may_pass_two_to_the_24():
    big = graph('y = (acc + b) * 256.0; return {"y": y, "s": row_sum(y, y)}')
    assert exact_outputs(sums, big, integers()) == {"y"}
    # Cancellation does not help: partial sums may be large in any order.
    cancelling = graph('y = acc * 8192.0; return {"y": y, "s": row_sum(y)}')
    assert "s" not in exact_outputs(sums, cancelling, integers(m=4, n=2048))


def test_nothing_is_claimed_of_ordinary_numbers():
    plain = draw(sums, Workload(sizes={"M": 24, "N": 40, "K": 64}))
    assert exact_outputs(sums, graph('y = acc + b; return {"y": y, "s": row_sum(y, y)}'), plain) == set()


def test_claims_hold_in_float32():
    """Single precision in another order of summation gives the rounded oracle, bit for bit."""
    inputs = integers(m=24, n=72, k=512)
    assert exact_outputs(sums, graph('y = acc + b; return {"y": y, "s": row_sum(y, y)}'), inputs) == {"y", "s"}
    truth = oracle(sums, inputs)
    x, w, b = (torch.as_tensor(inputs[n]).float() for n in ("x", "w", "b"))
    y = torch.stack([x[:, i, None] * w[:, i] for i in range(x.shape[1])]).flip(0).sum(0) + b
    assert torch.equal(y, truth["y"].float())
    assert torch.equal((y * y).flip(1).cumsum(1)[:, -1], truth["s"].float())


def test_accumulated_outputs_count_in_float32_only():
    tasks = catalogue()
    for name, claimed in (("linear_accumulate", {"dw"}), ("residual_rmsnorm_bwd_inplace", {"c_gamma", "grad_gamma"})):
        task = tasks[name]
        source = (files("codasmith.verified_kernels.hand_written") / f"{name}.py").read_text()
        workload = next(w for w in task.correctness_workloads() if w.family == "integers")
        found = exact_outputs(task, read(source, list(task.operands.values())), draw(task, workload))
        assert found == claimed


def with_values(**changed):
    """Inputs of 4 rows, 8 columns and a depth of 8, all ones but for those given."""
    ones = {"x": torch.ones(4, 8).bfloat16(), "w": torch.ones(8, 8).bfloat16(), "b": torch.zeros(8)}
    return {**ones, **changed}


PLAIN = 'y = acc + b; return {"y": y, "s": row_sum(y)}'


def test_the_products_partial_sums_count_though_they_cancel():
    signs = torch.tensor([1.0, -1.0]).repeat(4)
    cancelling = with_values(x=(4096 * torch.ones(4, 8)).bfloat16(), w=(4096 * signs).expand(8, 8).bfloat16())
    assert float(oracle(sums, cancelling)["y"].abs().max()) == 0
    assert exact_outputs(sums, graph(PLAIN), cancelling) == set()
    smaller = {**cancelling, "w": cancelling["w"] / 64}
    assert exact_outputs(sums, graph(PLAIN), smaller) == {"y", "s"}


def test_products_have_the_digits_of_both_factors():
    fine = with_values(b=torch.full((8,), 2.0**-12))
    squared = 'y = acc + b; return {"y": y * y, "s": row_sum(acc)}'
    assert exact_outputs(sums, graph(PLAIN), fine) == {"y", "s"}
    assert exact_outputs(sums, graph(squared), fine) == {"s"}
    # and indeed: (8 + 2^-12)^2 has 31 digits
    assert float(torch.tensor(8 + 2.0**-12).square()) != (8 + 2.0**-12) ** 2


def test_division_by_a_power_of_two_adds_digits():
    spread = 'y = acc / 65536.0 + acc * 65536.0; return {"y": y, "s": row_sum(acc)}'
    assert exact_outputs(sums, graph(spread), with_values()) == {"s"}
    assert exact_outputs(sums, graph('return {"y": acc / 65536.0, "s": row_sum(acc)}'), with_values()) == {"y", "s"}
