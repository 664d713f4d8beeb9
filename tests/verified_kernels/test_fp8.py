"""Operators on fp8 operands, where the reference runs."""

import pytest
import torch
from codasmith.tasks import Workload, catalogue, draw, oracle
from codasmith.tasks.quantise import FP8, takes
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
    ("capability", "make", "taken"),
    [
        ((9, 0), lambda: [empty(24, 80), empty(48, 80)], True),
        ((8, 0), lambda: [empty(24, 80), empty(48, 80)], False),
        ((9, 0), lambda: [empty(24, 72), empty(48, 72)], False),
        ((9, 0), lambda: [empty(0, 80), empty(48, 80)], False),
        ((9, 0), lambda: [empty(24, 80, stride=(160, 1)), empty(48, 80)], False),
        ((9, 0), lambda: [empty(24, 80), empty(48, 80, stride=(1, 48))], False),
        ((9, 0), lambda: [empty(24, 80), empty(48, 80, dtype=torch.bfloat16)], False),
        ((9, 0), lambda: [empty(24, 80), empty(48, 80, device="cpu")], False),
    ],
)
def test_scaled_mm_is_given_what_it_takes(monkeypatch, capability, make, taken):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with torch._subclasses.FakeTensorMode():
        operands = make()
    assert takes(operands) is taken


def apart(tensor, stride, offset=0):
    """The same numbers with rows so far apart, the first behind so many bytes."""
    memory = torch.zeros(tensor.shape[0] * stride + offset, dtype=torch.uint8, device=tensor.device).view(FP8)
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
    ],
)
def test_on_a_gpu_the_reference_answers_however_fp8_operands_lie(sizes, lay, taken):
    inputs = draw(TASK, Workload(sizes={**SIZES, "M": 500, **sizes}, storage="fp8"), "cuda")
    inputs.update({name: lay(inputs[name]) for name in ("x", "w")})
    assert takes([inputs["x"], inputs["w"]]) is taken
    (y,) = unfused.run(TASK, tuple(inputs.values()))
    truth = oracle(TASK, inputs)["y"]
    assert (y.double() - truth).abs().max() <= truth.abs().max() / 64
