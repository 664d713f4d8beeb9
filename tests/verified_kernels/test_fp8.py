"""Operators on fp8 operands, where the reference runs."""

import pytest
import torch
from codasmith.tasks import Workload, catalogue, draw, oracle, quantise
from codasmith.tasks.quantise import FP8
from codasmith.verified_kernels import InputError, load, unfused

SIZES = {"M": 24, "N": 48, "K": 80}
TASK = catalogue()["linear_scale_bias"]


@pytest.fixture
def inputs():
    return draw(TASK, Workload(sizes=SIZES, storage="fp8"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_reference_multiplies_fp8_operands_as_the_same_numbers_in_bf16(inputs):
    y = load("linear_scale_bias")(**inputs)
    truth = oracle(TASK, inputs)["y"]
    assert y.dtype == torch.bfloat16
    assert (y.double() - truth).abs().max() <= truth.abs().max() / 64


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_autocast_leaves_fp8_operands_as_they_are(inputs):
    expected = load("linear_scale_bias")(**inputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(load("linear_scale_bias")(**inputs), expected)


def test_fake_of_the_operator_answers_in_bf16(inputs):
    op = load("linear_scale_bias")
    with torch._subclasses.FakeTensorMode() as mode:
        fake = op.overload(*(mode.from_tensor(v) for v in inputs.values()))
    assert fake.dtype == torch.bfloat16 and list(fake.shape) == [24, 48]
    assert unfused.output_dtype(TASK, "y", list(inputs.values())) == torch.bfloat16


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gradients_reach_what_is_added_beside_fp8_operands(inputs):
    bias = inputs["bias"].requires_grad_()
    load("linear_scale_bias")(**inputs).sum().backward()
    assert inputs["x"].dtype == FP8 and torch.equal(bias.grad, torch.full_like(bias, 24.0))


OTHER = (torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e8m0fnu)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", OTHER)
@pytest.mark.parametrize(("name", "wanted"), [("x", "float8_e4m3fn"), ("row_scale", "float32"), ("bias", "bfloat16")])
def test_another_fp8_is_told_of_with_the_dtype_to_take(inputs, dtype, name, wanted):
    """torch said `Promotion for Float8 Types is not supported`, and of which tensor, nobody."""
    words = rf"^linear_scale_bias: {name} is {dtype}, which no kernel takes; convert it to torch.{wanted}$"
    changed = {**inputs, name: inputs[name].float().abs().to(dtype)}
    with pytest.raises(InputError, match=words):
        load("linear_scale_bias")(**changed)


def empty(rows, columns, stride=None, dtype=FP8, device="cuda"):
    return torch.empty_strided((rows, columns), stride or (columns, 1), dtype=dtype, device=device)


@pytest.mark.parametrize(
    ("multiplies", "make", "taken"),
    [
        (True, lambda: [empty(24, 80), empty(48, 80)], True),
        (True, lambda: [empty(1, 80), empty(1, 80)], True),
        (False, lambda: [empty(24, 80), empty(48, 80)], False),
        (True, lambda: [empty(24, 72), empty(48, 72)], False),
        (True, lambda: [empty(0, 80), empty(48, 80)], False),
        (True, lambda: [empty(24, 80, stride=(160, 1)), empty(48, 80)], False),
        (True, lambda: [empty(1, 80, stride=(1, 1)), empty(48, 80)], False),
        (True, lambda: [empty(24, 80), empty(48, 80, stride=(1, 48))], False),
        (True, lambda: [empty(24, 80), empty(48, 80, dtype=torch.bfloat16)], False),
        (True, lambda: [empty(24, 80), empty(48, 80, device="cpu")], False),
    ],
)
def test_scaled_mm_is_given_what_it_takes(monkeypatch, multiplies, make, taken):
    monkeypatch.setattr(quantise, "_multiplies", lambda device: multiplies)
    with torch._subclasses.FakeTensorMode():
        operands = make()
    assert quantise.takes(operands) is taken


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Fp8 operands are multiplied as on a GPU. The dtypes of the products' scales."""
    seen, product = [], torch._scaled_mm

    def multiply(a, b, one, other, **options):
        seen.append(one.dtype)
        return product(a, b, one, other, **options)

    monkeypatch.setattr(unfused, "takes", lambda operands: True)
    monkeypatch.setattr(torch, "_scaled_mm", multiply)
    return seen


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_makes_no_difference_to_scaled_mm(inputs, on_a_gpu, dtype):
    op = load("linear_scale_bias")
    expected = op(**inputs)
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(op(**inputs), expected) and on_a_gpu == [torch.float32] * 2
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "times"), [("bias", 2), ("w", 1)])
def test_for_gradients_of_fp8_operands_they_are_multiplied_in_bf16(inputs, on_a_gpu, name, times):
    """`torch._scaled_mm` has none: a step that trained weights and a bias stopped there."""
    leaf = inputs[name].float().requires_grad_()
    y = load("linear_scale_bias")(**{**inputs, name: leaf.to(inputs[name].dtype)})
    y.float().square().sum().backward()
    assert leaf.grad.abs().sum() > 0 and len(on_a_gpu) == times


def apart(tensor, stride, offset=0):
    """The same numbers with rows so far apart, the first behind so many bytes."""
    size = tensor.shape[0] * stride + tensor.shape[1] + offset
    memory = torch.zeros(size, dtype=torch.uint8, device=tensor.device).view(FP8)
    return memory.as_strided(tensor.shape, (stride, 1), offset).copy_(tensor)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("sizes", "lay", "taken"),
    [
        ({}, lambda t: t, True),
        ({"M": 1, "N": 8}, lambda t: t, True),
        ({"K": 72}, lambda t: t, False),
        ({}, lambda t: apart(t, 96), False),
        ({}, lambda t: apart(t, 80, 8), False),
        ({"M": 1}, lambda t: apart(t, 1) if len(t) == 1 else t, False),
    ],
)
def test_on_a_gpu_the_reference_answers_however_fp8_operands_lie(sizes, lay, taken):
    inputs = draw(TASK, Workload(sizes={**SIZES, "M": 500, **sizes}, storage="fp8"), "cuda")
    inputs.update({name: lay(inputs[name]) for name in ("x", "w")})
    assert quantise.takes([inputs["x"], inputs["w"]]) is taken
    (y,) = unfused.run(TASK, tuple(inputs.values()))
    truth = oracle(TASK, inputs)["y"]
    assert (y.double() - truth).abs().max() <= truth.abs().max() / 64
