"""Each pattern, produced and named."""

import pytest
import torch
from codasmith.gate import patterns
from codasmith.gate.patterns import diagnose
from codasmith.tasks import catalogue, deinterleave, interleave


def values(m=200, n=264, seed=0, dtype=torch.float32):
    return torch.randn(m, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def phrase(change, m=200, n=264, **more):
    oracle = values(m, n)
    actual = oracle.clone()
    replaced = change(actual)
    return diagnose("y", actual if replaced is None else replaced, oracle.double(), **more)["pattern"]


def put(*where, value):
    def change(a):
        a[where] = value(a[where]) if callable(value) else value

    return change


EVERYWHERE = {
    "all zero": torch.zeros_like,
    "all NaN": lambda a: a * torch.nan,
    "all infinite": lambda a: torch.where(a > 0, torch.inf, -torch.inf),
    "the sign is flipped": lambda a: -a,
    "a constant factor of 2": lambda a: 2 * a,
    "a constant factor of -0.5": lambda a: -0.5 * a,
    "a constant offset of 0.25": lambda a: a + 0.25,
    "the constant 3": lambda a: torch.full_like(a, 3.0),
    "shifted by a column towards the end": lambda a: a.roll(1, 1),
    "shifted by a column towards the start": lambda a: a.roll(-1, 1),
    "shifted by 8 columns towards the end": lambda a: a.roll(8, 1),
    "shifted by a row towards the end": lambda a: a.roll(1, 0),
    "shifted by 2 rows towards the start": lambda a: a.roll(-2, 0),
    "even and odd columns are exchanged": lambda a: a.unflatten(1, (-1, 2)).flip(2).flatten(1),
    "columns lie as halves (all even, then all odd) instead of pairs": deinterleave,
    "columns lie as pairs (even, odd, even, odd) instead of halves": interleave,
    "transposed in memory: written column after column": lambda a: a.T.contiguous().view(a.shape),
}


@pytest.mark.parametrize("words", EVERYWHERE)
def test_patterns_of_the_whole_output(words):
    assert phrase(EVERYWHERE[words]) == words


def test_transposed_squares():
    assert phrase(lambda a: a.T.clone(), 128, 128) == "transposed"


ROWS, COLS = slice(None), slice(None)
PLACES = {
    "wrong in odd columns only": put(ROWS, slice(1, None, 2), value=lambda a: a.exp()),
    "wrong in even columns only: all zero": put(ROWS, slice(0, None, 2), value=0.0),
    "wrong in odd columns only: the sign is flipped": put(ROWS, slice(1, None, 2), value=lambda a: -a),
    "wrong in the last 136 rows, from row 64 on only: all zero": put(slice(64, None), value=0.0),
    "wrong in the last 8 columns (the ragged edge) only: all NaN": put(ROWS, slice(256, None), value=torch.nan),
    "wrong in the last 72 rows (the ragged edge) only: a constant factor of 3": put(
        slice(128, None), value=lambda a: 3 * a
    ),
    "wrong in row 5 only: all zero": put(5, value=0.0),
    "wrong in column 0 only: a constant offset of 1": put(ROWS, 0, value=lambda a: a + 1),
    "wrong in rows 10 to 19 and columns 3 to 6 only: all zero": put(slice(10, 20), slice(3, 7), value=0.0),
}


@pytest.mark.parametrize("words", PLACES)
def test_patterns_of_a_part(words):
    assert phrase(PLACES[words]) == words


def test_one_wrong_tile():
    change = put(slice(128, 256), slice(192, 384), value=lambda a: a.roll(3, 1).exp())
    assert phrase(change, 500, 700) == "wrong in one tile only, rows 128 to 255, columns 192 to 383"


def test_scattered_nan_is_counted():
    def change(a):
        a[::7, ::5] = torch.nan

    assert phrase(change) == "NaN in 1537 of 52800 elements looked at"


def test_infinities_among_right_values_are_counted():
    assert phrase(lambda a: a.masked_fill_(a > 0, torch.inf)).startswith("infinite in 26")


def test_what_an_operand_left_out_would_give_is_recognised():
    oracle = values()
    variants = {"without bias": oracle - values(seed=1), "the bare accumulator": values(seed=2)}
    assert (
        diagnose("y", variants["without bias"], oracle, variants=variants)["pattern"]
        == "equals the reference without bias"
    )
    assert (
        diagnose("y", variants["the bare accumulator"], oracle, variants=variants)["pattern"]
        == "equals the bare accumulator"
    )


def test_a_near_miss_is_called_close():
    assert phrase(lambda a: a + 1e-3 * values(seed=9)).startswith("close but not equal: max relative difference 0.00")


def test_noise_has_no_pattern():
    assert phrase(lambda a: values(seed=3)) == ""


def test_counts_and_the_worst_element():
    oracle = values().double()
    actual = oracle.bfloat16()
    actual[7, 9], actual[30, 40] = 50.0, 20.0
    found = diagnose("y", actual, oracle)
    assert found["wrong"] == 2 and found["elements"] == 200 * 264
    assert found["share"] == pytest.approx(2 / (200 * 264))
    assert found["worst"] == {"index": [7, 9], "value": 50.0, "expected": float(oracle[7, 9])}
    assert found["max_error"] == pytest.approx(50 - float(oracle[7, 9]))


def test_nan_is_worse_than_any_number_and_infinity_in_its_place_is_right():
    oracle = values().double()
    oracle[3, 3] = torch.inf
    actual = oracle.clone()
    assert diagnose("y", actual, oracle)["wrong"] == 0
    actual[8, 8], actual[9, 9] = 1e9, torch.nan
    assert diagnose("y", actual, oracle)["worst"]["index"] == [9, 9]


def test_rounding_to_the_outputs_dtype_is_not_wrong():
    oracle = values(dtype=torch.float64)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        found = diagnose("y", oracle.to(dtype), oracle)
        assert found["wrong"] == 0 and found["pattern"] == ""


def test_vectors_are_named_by_their_direction():
    oracle = values(1, 300)[0].double()
    actual = oracle.clone()
    actual[256:] = 0
    task = catalogue()["residual_partial_rmsnorm"]
    assert (
        diagnose("sumsq", actual, oracle, task)["pattern"]
        == "wrong in the last 44 rows (the ragged edge) only: all zero"
    )
    found = diagnose("s", oracle.roll(1), oracle)
    assert found["pattern"] == "shifted by a column towards the end" and len(found["worst"]["index"]) == 1


def test_big_tensors_are_searched_around_their_wrong_elements(monkeypatch):
    monkeypatch.setattr(patterns, "_CHUNK", 50_000)
    oracle = values(1500, 1100)
    actual = oracle.clone()
    actual[1300:, 1000:] *= 2
    found = diagnose("y", actual, oracle.double())
    assert found["wrong"] == 200 * 100
    assert found["pattern"] == (
        "wrong in the last 200 rows, from row 1300 on and the last 100 columns, from column 1000 on only: "
        "a constant factor of 2"
    )


def test_tolerance_decides_what_is_wrong():
    oracle = values().double()
    actual = oracle + 1e-4
    assert diagnose("y", actual, oracle, tolerance=1e-3)["wrong"] == 0
    assert diagnose("y", actual, oracle, tolerance=1e-5)["pattern"] == "a constant offset of 0.0001"
