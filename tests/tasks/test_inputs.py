import pytest
import torch
from codasmith.tasks import FAMILIES, TaskError, Tensor, Workload, draw, task

SIZES = {"M": 128, "N": 96, "K": 256}


@task(
    gemm="x @ w.T",
    x=Tensor("M K"),
    w=Tensor("N K", scale="K**-0.5"),
    bias=Tensor("N"),
    rstd=Tensor("M", "f32", low=0.5, high=1.5),
    target=Tensor("M", "i64", low=0, high="N"),
    alpha=Tensor("", low=0.25, high=0.5),
    beta=Tensor("", scale=2.0),
    out={"y": Tensor("M N")},
)
def example(x, w, bias, rstd, target, alpha, beta):
    y = alpha * (x @ w.T) * rstd[:, None] + beta * bias
    return {"y": y + y.gather(-1, target[:, None])}


def drawn(family="normal", seed=0, storage="bf16"):
    return draw(example, Workload(sizes=SIZES, family=family, seed=seed, storage=storage))


def test_shapes_dtypes_and_scalars_follow_the_declaration():
    inputs = drawn()
    assert list(inputs) == ["x", "w", "bias", "rstd", "target", "alpha", "beta"]
    assert inputs["x"].shape == (128, 256) and inputs["x"].dtype == torch.bfloat16
    assert inputs["w"].shape == (96, 256)
    assert inputs["rstd"].shape == (128,) and inputs["rstd"].dtype == torch.float32
    assert inputs["target"].dtype == torch.int64
    assert isinstance(inputs["alpha"], float) and isinstance(inputs["beta"], float)
    assert drawn(storage="fp16")["x"].dtype == torch.float16


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_repeat_by_seed_and_differ_between_seeds(family):
    once, again, other = drawn(family), drawn(family), drawn(family, seed=1)
    for name, value in once.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, again[name])
            assert not torch.equal(value, other[name])
        else:
            assert value == again[name]


def test_families_differ_and_tensors_of_one_workload_do_too():
    for first in FAMILIES:
        for second in FAMILIES:
            if first != second:
                assert not torch.equal(drawn(first)["x"], drawn(second)["x"])
    assert not torch.equal(drawn()["x"][:96], drawn()["w"])


@pytest.mark.parametrize("family", FAMILIES)
def test_bounded_tensors_stay_within_their_bounds(family):
    inputs = drawn(family)
    assert inputs["rstd"].min() >= 0.5 and inputs["rstd"].max() <= 1.5
    assert inputs["target"].min() == 0 and inputs["target"].max() == 95
    assert 0.25 <= inputs["alpha"] <= 0.5
    assert 0.5 <= abs(inputs["beta"]) <= 3.0


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tensor_is_constant_or_zero(family):
    for value in drawn(family).values():
        if isinstance(value, torch.Tensor):
            assert value.unique().numel() > 1


def test_normal_and_large_and_tiny_have_their_scales():
    assert drawn()["x"].float().std() == pytest.approx(1.0, rel=0.05)
    assert drawn()["w"].float().std() == pytest.approx(1 / 16, rel=0.05)
    assert drawn("large")["x"].float().std() == pytest.approx(16.0, rel=0.05)
    assert drawn("tiny")["x"].float().std() == pytest.approx(2.0**-10, rel=0.05)
    assert drawn("large", storage="fp16")["x"].float().std() == pytest.approx(4.0, rel=0.05)


def test_sparse_is_nine_tenths_exact_zeros():
    assert (drawn("sparse")["x"] == 0).float().mean() == pytest.approx(0.9, abs=0.02)


def test_a_short_sparse_vector_is_not_all_zero():
    for seed in range(20):
        inputs = draw(example, Workload(sizes={"M": 1, "N": 8, "K": 8}, family="sparse", seed=seed))
        assert (inputs["bias"] != 0).any()


def test_outliers_are_a_few_rows_of_the_activations_only():
    inputs = drawn("outliers")
    rows = inputs["x"].float().std(1)
    assert (rows > 32).sum() == 2
    assert (rows < 2).sum() == 126
    assert inputs["w"].float().std(1).max() < 1


def test_outliers_of_a_transposed_operand_run_along_the_products_rows():
    @task(gemm="dy.T @ x", dy=Tensor("K M"), x=Tensor("K N"), out={"dw": Tensor("M N", "f32")})
    def gradient(dy, x):
        return {"dw": dy.T @ x}

    dy = draw(gradient, Workload(sizes=SIZES, family="outliers"))["dy"].float()
    assert (dy.std(0) > 32).sum() == 2
    assert (dy.std(1) < 32).all()


def test_integers_are_small_whole_numbers_and_their_products_exact():
    inputs = drawn("integers")
    for name in ("x", "w", "bias"):
        assert torch.equal(inputs[name], inputs[name].round()) and inputs[name].abs().max() <= 3
    assert torch.equal(inputs["rstd"] * 2, (inputs["rstd"] * 2).round())
    assert (inputs["alpha"] * 8).is_integer() and (inputs["beta"] * 4).is_integer()
    in_float32 = inputs["x"].float() @ inputs["w"].float().T
    assert torch.equal(in_float32.double(), inputs["x"].double() @ inputs["w"].double().T)


def test_mixed_holds_several_families_in_one_tensor():
    rows = drawn("mixed")["x"].float()
    assert (rows[:21] == 0).float().mean() < 0.01 and rows[:21].std() == pytest.approx(1, rel=0.1)
    assert rows[64:85].std() < 0.01
    assert (rows[107:] == 0).float().mean() > 0.8


def test_bounds_that_are_no_range_are_refused():
    @task(gemm="x @ w.T", x=Tensor("M K", low=2.0, high=1.0), w=Tensor("N K"), out={"y": Tensor("M N")})
    def backwards(x, w):
        return {"y": x @ w.T}

    with pytest.raises(TaskError, match=r"x has low=2 and high=1; low must be less"):
        draw(backwards, Workload(sizes=SIZES))
