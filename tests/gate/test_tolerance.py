"""The numerics rule: what always passes, what never does."""

from dataclasses import asdict

import pytest
import torch
from codasmith.gate import tolerance
from codasmith.gate.tolerance import judge
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
cases = given(
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from(DTYPES),
    scale=st.sampled_from([1e-4, 1.0, 3.7, 1000.0]),
    rows=st.integers(1, 40),
    cols=st.integers(1, 40),
)


def drawn(seed, dtype, scale, rows, cols):
    """A float64 oracle, and an unfused answer that rounds twice on the way."""
    oracle = torch.randn(rows, cols, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale
    return oracle, ((oracle * 1.7).to(dtype) / 1.7).to(dtype)


@settings(max_examples=60, deadline=None)
@cases
def test_correct_rounding_passes_whatever_the_unfused_path_does(seed, dtype, scale, rows, cols):
    oracle, _ = drawn(seed, dtype, scale, rows, cols)
    rounded = oracle.to(dtype)
    assert judge(rounded, oracle, rounded, dtype).ok
    assert judge(rounded, oracle, rounded, dtype, exact=True).ok
    assert judge(rounded, oracle, torch.full_like(rounded, torch.nan), dtype).ok


@settings(max_examples=60, deadline=None)
@cases
def test_the_unfused_answer_itself_passes(seed, dtype, scale, rows, cols):
    oracle, unfused = drawn(seed, dtype, scale, rows, cols)
    assert judge(unfused, oracle, unfused, dtype).ok


@settings(max_examples=60, deadline=None)
@cases
def test_zeros_fail_even_beside_a_useless_unfused_path(seed, dtype, scale, rows, cols):
    oracle, unfused = drawn(seed, dtype, scale, rows, cols)
    zeros = torch.zeros_like(unfused)
    for budget in (unfused, zeros, torch.full_like(unfused, 60000.0)):
        assert not judge(zeros, oracle, budget, dtype).ok


@pytest.mark.parametrize("exponent", range(-24, 17))
def test_correct_rounding_passes_down_to_the_subnormals_of_float16(exponent):
    oracle = torch.linspace(-1, 1, 1001, dtype=torch.float64) * 2.0**exponent * 0.99
    rounded = oracle.to(torch.float16)
    assert judge(rounded, oracle, rounded, torch.float16).ok
    assert not judge(torch.zeros_like(rounded), oracle, rounded, torch.float16).ok or not rounded.any()


def test_where_the_oracle_is_zero_only_zero_passes():
    oracle = torch.zeros(4, 4, dtype=torch.float64)
    zero = torch.zeros(4, 4, dtype=torch.bfloat16)
    assert judge(zero, oracle, zero, torch.bfloat16).ok
    assert not judge(zero + 1e-30, oracle, zero, torch.bfloat16).ok


def wide(dtype=torch.bfloat16):
    return drawn(7, dtype, 1.0, 300, 520)


def test_a_shift_by_a_column_fails():
    oracle, unfused = wide()
    assert not judge(oracle.roll(1, 1).to(unfused.dtype), oracle, unfused, unfused.dtype).ok


def test_one_wrong_tile_fails_although_the_rest_is_right():
    oracle, unfused = wide()
    actual = oracle.to(unfused.dtype)
    actual[128:256, 256:512] = actual[:128, :256].clone()
    assert not judge(actual, oracle, unfused, unfused.dtype).ok


def test_one_wrong_element_fails():
    oracle, unfused = wide()
    actual = oracle.to(unfused.dtype)
    actual[299, 519] += 0.5
    found = judge(actual, oracle, unfused, unfused.dtype)
    assert not found.ok and found.kernel_max == pytest.approx(0.5, abs=0.02) and found.kernel_rms <= found.bound_rms
    assert "largest error" in str(found)


def test_a_small_error_everywhere_fails_by_its_root_mean_square():
    """Within the largest error, as a lower precision throughout would be."""
    oracle, unfused = wide()
    bound = judge(unfused, oracle, unfused, unfused.dtype)
    actual = (oracle + 0.7 * bound.bound_max).to(unfused.dtype)
    found = judge(actual, oracle, unfused, unfused.dtype)
    assert found.kernel_max <= found.bound_max and not found.ok
    assert "RMS" in str(found)


def test_bfloat16_arithmetic_fails_where_float32_is_asked():
    oracle, _ = wide(torch.float32)
    unfused = oracle.float()
    found = judge(oracle.bfloat16().float(), oracle, unfused, torch.float32)
    assert not found.ok and found.ratio > 100


def test_bounds_are_twice_the_unfused_error_and_one_unit_of_the_scale():
    oracle = torch.tensor([[4.0, -2.0], [0.0, 1.0]], dtype=torch.float64).repeat(16, 1)
    unfused = torch.tensor([[4.0, -2.0], [0.25, 1.0]], dtype=torch.bfloat16).repeat(16, 1)
    found = judge(unfused, oracle, unfused, torch.bfloat16)
    rms = (21 / 4) ** 0.5
    assert (found.scale_max, found.unfused_max, found.kernel_max) == (4.0, 0.25, 0.25)
    assert found.scale_rms == pytest.approx(rms) and found.unfused_rms == 0.125
    assert found.bound_max == pytest.approx(2 * 0.25 + 4 / 128)
    assert found.bound_rms == pytest.approx(2 * 0.125 + rms / 128)


def test_an_unfused_path_forgives_an_eighth_of_the_scale_at_most():
    oracle, unfused = wide()
    found = judge(unfused, oracle, unfused + 100, unfused.dtype)
    assert found.bound_max == pytest.approx(found.scale_max * (1 / 8 + 1 / 128))
    assert found.bound_rms == pytest.approx(found.scale_rms * (1 / 8 + 1 / 128))


def test_nan_and_infinities_must_stand_where_the_rounded_oracle_has_them():
    oracle = torch.tensor([[1.0, torch.nan, torch.inf, -torch.inf, 1e6, -3.0]], dtype=torch.float64)
    unfused = oracle.to(torch.float16)  # 1e6 overflows
    assert unfused[0, 4] == torch.inf
    found = judge(unfused, oracle, unfused, torch.float16)
    assert found.ok and found.misplaced == 0 and found.scale_max == 3.0
    for column, value in ((0, torch.nan), (0, torch.inf), (1, 0.0), (2, -torch.inf), (2, torch.nan), (4, 65504.0)):
        actual = unfused.clone()
        actual[0, column] = value
        found = judge(actual, oracle, unfused, torch.float16)
        assert not found.ok and found.misplaced == 1, (column, value)
        assert "NaN or infinite" in str(found)


def test_all_nan_passes_only_where_all_is_nan():
    oracle = torch.full((3, 3), torch.nan, dtype=torch.float64)
    nan = oracle.to(torch.bfloat16)
    assert judge(nan, oracle, nan, torch.bfloat16).ok
    assert judge(nan, torch.ones_like(oracle), nan, torch.bfloat16).misplaced == 9


def test_equality_is_asked_of_whole_numbers():
    oracle, _ = drawn(3, torch.float32, 100.0, 8, 8)
    oracle = oracle.round()
    unfused = oracle.float()
    assert judge(unfused, oracle, unfused, torch.float32, exact=True).unequal == 0
    near = unfused.clone()
    near[2, 3] = torch.nextafter(near[2, 3], torch.tensor(torch.inf))
    assert judge(near, oracle, unfused, torch.float32).ok
    found = judge(near, oracle, unfused, torch.float32, exact=True)
    assert not found.ok and found.unequal == 1 and "whole numbers" in str(found)


def test_zero_has_no_sign():
    oracle = torch.tensor([0.0, -0.0, 1.0], dtype=torch.float64)
    actual = torch.tensor([-0.0, 0.0, 1.0])
    assert judge(actual, oracle, actual, torch.float32, exact=True).ok


@pytest.mark.parametrize("size", [1, 7, 64])
def test_blocks_of_rows_give_the_same_answer_as_the_whole(monkeypatch, size):
    oracle, unfused = wide()
    actual = (oracle * 1.001).to(unfused.dtype)
    actual[5, 5] = torch.nan
    whole = asdict(judge(actual, oracle, unfused, unfused.dtype, exact=True))
    monkeypatch.setattr(tolerance, "_CHUNK", size * oracle.shape[1])
    parts = asdict(judge(actual, oracle, unfused, unfused.dtype, exact=True))
    assert whole["misplaced"] == 1 and whole["unequal"] > 1000
    assert parts == pytest.approx(whole, rel=1e-12)


def test_vectors_are_judged_alike():
    oracle, unfused = wide(torch.float32)
    vector = judge(unfused[0], oracle[0], unfused[0], torch.float32)
    assert vector.ok and vector.scale_max == float(oracle[0].abs().max())
    assert not judge(unfused[0].roll(1), oracle[0], unfused[0], torch.float32).ok


def test_wrong_dtypes_and_shapes_are_the_callers_mistake():
    oracle, unfused = wide()
    with pytest.raises(ValueError, match="bfloat16"):
        judge(oracle.half(), oracle, unfused, torch.bfloat16)
    with pytest.raises(ValueError, match="same"):
        judge(unfused[:2], oracle, unfused, torch.bfloat16)


def test_a_float32_sum_of_exponentials_is_allowed_what_the_gpu_unit_errs():
    """Seen on an H200: on whole numbers the unfused path was exact, and an honest exp unit 1.5e-7 off was refused."""
    oracle = torch.exp(torch.tensor([39.5, 38.0, 12.0], dtype=torch.float64)).repeat(22)
    unfused = oracle.float()
    honest = (oracle * (1 + 1.5e-7)).float()
    assert judge(honest, oracle, unfused, torch.float32).ok
    in_bfloat16 = oracle.bfloat16().float()
    assert not judge(in_bfloat16, oracle, unfused, torch.float32).ok
    assert not judge((oracle * (1 + 2e-5)).float(), oracle, unfused, torch.float32).ok


@pytest.mark.parametrize(("count", "passes"), [(1, True), (8, True), (63, True), (64, False), (4096, False)])
def test_a_lucky_unfused_path_is_no_measure_where_there_are_few_elements(count, passes):
    truth = torch.linspace(1.0, 1.5, count, dtype=torch.float64)
    exactly = truth.bfloat16()
    off = (truth + 0.04).bfloat16()
    found = judge(off, exactly.double(), exactly, torch.bfloat16)
    assert found.unfused_max == 0 and found.ok == passes


@pytest.mark.parametrize("count", [1, 8, 63, 64])
def test_zeros_never_pass_however_few_and_however_bad_the_unfused_path(count):
    truth = torch.linspace(0.5, 1.0, count, dtype=torch.float64)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        assert not judge(torch.zeros(count, dtype=dtype), truth, (100 * truth).to(dtype), dtype).ok
