"""Each primitive's torch meaning against a direct formula on Python floats."""

import math

import pytest
import torch
from codasmith.primitives import REGISTRY
from hypothesis import given, settings
from hypothesis import strategies as st


def sigma(x):
    return 1 / (1 + math.exp(-x))


def phi(x):
    """The normal distribution function."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


C = math.sqrt(2 / math.pi)


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(C * (x + 0.044715 * x**3)))


def derivative(f):
    """A fifth-order difference, good to about 1e-9 on these smooth functions."""

    def slope(x, h=1e-3):
        return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)

    return slope


UNARY = {
    "neg": lambda x: -x,
    "abs": math.fabs,
    "exp": math.exp,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "sigmoid": sigma,
    "silu": lambda x: x * sigma(x),
    "gelu": lambda x: x * phi(x),
    "gelu_tanh": gelu_tanh,
    "relu": lambda x: max(x, 0.0),
    "relu_sq": lambda x: max(x, 0.0) ** 2,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "reciprocal": lambda x: 1 / x,
    "relu_grad": lambda x: 1.0 if x > 0 else 0.0,
    "relu_sq_grad": lambda x: 2 * max(x, 0.0),
}
DERIVATIVES = {
    "sigmoid_grad": derivative(sigma),
    "silu_grad": derivative(lambda x: x * sigma(x)),
    "gelu_grad": derivative(lambda x: x * phi(x)),
    "gelu_tanh_grad": derivative(gelu_tanh),
    "tanh_grad": derivative(math.tanh),
}
POSITIVE = {"log": math.log, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x)}
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": max,
    "minimum": min,
    "softcap": lambda x, cap: cap * math.tanh(x / cap),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
ELSEWHERE = {
    *("clamp", "where", "logical_and", "logical_or", "unpack", "pack", "rotate", "row_sum", "col_sum"),
    *("row_max", "col_max", "row_absmax", "col_absmax", "row_lse", "select"),
    *("column_index", "row_index", "head_sum"),
}

numbers = st.floats(-20, 20).filter(lambda x: abs(x) > 1e-3)


def tensor(x):
    return torch.tensor(x, dtype=torch.float64)


def test_every_primitive_is_tested_here():
    assert set(REGISTRY) == {*UNARY, *DERIVATIVES, *POSITIVE, *BINARY, *ELSEWHERE}


@pytest.mark.parametrize("name", [*UNARY, *DERIVATIVES, *POSITIVE])
@settings(max_examples=40, deadline=None)
@given(x=numbers)
def test_one_argument(name, x):
    x = abs(x) if name in POSITIVE else x
    expected = {**UNARY, **POSITIVE, **DERIVATIVES}[name](x)
    tolerance = 1e-7 if name in DERIVATIVES else 1e-12
    assert REGISTRY[name].torch(tensor(x)).item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=40, deadline=None)
@given(a=numbers, b=numbers, same=st.booleans())
def test_two_arguments(name, a, b, same):
    b = a if same else b
    result = REGISTRY[name].torch(tensor(a), tensor(b)).item()
    assert result == pytest.approx(BINARY[name](a, b), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(x=numbers, low=numbers, high=numbers)
def test_clamp_and_where_and_conditions(x, low, high):
    low, high = min(low, high), max(low, high)
    assert REGISTRY["clamp"].torch(tensor(x), low, high).item() == min(max(x, low), high)
    above, below = tensor(x) > low, tensor(x) < high
    both = REGISTRY["logical_and"].torch(above, below)
    either = REGISTRY["logical_or"].torch(above, below)
    assert both.item() == (low < x < high)
    assert either.item() == (x > low or x < high)
    assert REGISTRY["where"].torch(both, tensor(x), 0.0).item() == (x if low < x < high else 0.0)


def test_maximum_and_minimum_pass_nan_on():
    nan = tensor(math.nan)
    for name in ("maximum", "minimum"):
        assert REGISTRY[name].torch(nan, tensor(1.0)).isnan()
        assert REGISTRY[name].torch(tensor(1.0), nan).isnan()


matrices = st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(rows=matrices)
def test_reductions(rows):
    a = tensor(rows)
    columns = list(zip(*rows, strict=True))

    def close(name, expected, *more):
        assert REGISTRY[name].torch(a, *more).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)

    close("row_sum", [math.fsum(r) for r in rows])
    close("row_sum", [math.fsum(v * v for v in r) for r in rows], a)
    close("col_sum", [math.fsum(c) for c in columns])
    close("col_sum", [math.fsum(v * v for v in c) for c in columns], a)
    close("row_max", [max(r) for r in rows])
    close("col_max", [max(c) for c in columns])
    close("row_absmax", [max(map(abs, r)) for r in rows])
    close("col_absmax", [max(map(abs, c)) for c in columns])
    close("row_lse", [math.log(math.fsum(map(math.exp, r))) for r in rows])


def test_coordinates_count_the_columns_and_rows_of_what_they_are_given():
    x = torch.zeros(3, 4, dtype=torch.bfloat16)
    assert (REGISTRY["column_index"].torch(x) + torch.zeros(3, 4)).tolist() == [[0, 1, 2, 3]] * 3
    assert (REGISTRY["row_index"].torch(x) + torch.zeros(3, 2)).tolist() == [[0, 0], [1, 1], [2, 2]]


def test_coordinates_of_narrow_dtypes_are_exact():
    columns = REGISTRY["column_index"].torch(torch.zeros(1, 70_001, dtype=torch.bfloat16))
    assert columns[0, -1].item() == 70_000


def test_a_head_sum_stands_in_every_column_of_its_head():
    x = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    assert REGISTRY["head_sum"].torch(x, 2).tolist() == [[3, 3, 7, 7], [11, 11, 15, 15]]


def test_lse_of_large_values_does_not_overflow():
    assert REGISTRY["row_lse"].torch(tensor([[1000.0, 1000.0]])).item() == pytest.approx(1000 + math.log(2))


def test_select_picks_a_column_a_row_and_nothing_outside():
    a = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    picked = REGISTRY["select"].torch(a, torch.tensor([1, 0, -100], dtype=torch.int32))
    assert picked[:2].tolist() == [2.0, 3.0]
    assert picked[2].isnan()


@settings(max_examples=40, deadline=None)
@given(rows=matrices)
def test_pack_is_the_inverse_of_unpack(rows):
    a = tensor(rows)
    even, odd = REGISTRY["unpack"].torch(a)
    assert even.tolist() == [[r[0], r[2]] for r in rows]
    assert odd.tolist() == [[r[1], r[3]] for r in rows]
    assert torch.equal(REGISTRY["pack"].torch(even, odd), a)


@settings(max_examples=40, deadline=None)
@given(a=numbers, b=numbers, angle=numbers)
def test_rotate_turns_pairs_as_complex_numbers(a, b, angle):
    turned = complex(a, b) * complex(math.cos(angle), math.sin(angle))
    result = REGISTRY["rotate"].torch(tensor([[a, b]]), tensor([[math.cos(angle)]]), tensor([[math.sin(angle)]]))
    assert result.flatten().tolist() == pytest.approx([turned.real, turned.imag], rel=1e-12, abs=1e-12)
