from math import prod

import pytest
import torch
from codasmith import gate
from codasmith.gate import baselines, roofline
from codasmith.gate.buffers import BareSet
from codasmith.gate.frame import frame_of
from codasmith.gate.pipeline import bare_kernels
from codasmith.primitives import read
from codasmith.tasks import Workload, catalogue, draw, load_task
from codasmith.tasks.quantise import by_scaled_mm
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.launch import refuse
from codasmith.templates.schedule import FP8_SCHEDULES, SCHEDULES, by_name, schedules_for

TASK = catalogue()["linear_scale_bias"]
SOURCE = """
from codasmith.primitives import epilogue

@epilogue
def linear_scale_bias(acc, row_scale, col_scale, bias):
    return {"y": acc * row_scale * col_scale + bias}
"""
SIZES = {"M": 40, "N": 48, "K": 80}


def signature():
    graph = read(SOURCE, list(TASK.operands.values()))
    return generate(graph, frame_of(TASK, "fp8"), FP8_SCHEDULES[0]).signature


def test_only_the_operands_of_the_product_are_fp8():
    dtypes = {name: spec.dtype for name, spec in signature().tensors.items()}
    assert dtypes == {"x": "fp8", "w": "fp8", "row_scale": "f32", "col_scale": "f32", "bias": "bf16", "y": "bf16"}


def test_fp8_has_schedules_of_its_own_and_16_bits_keep_theirs():
    assert schedules_for("bf16") == schedules_for("fp16") == SCHEDULES and schedules_for("fp8") == FP8_SCHEDULES
    assert [by_name(s.name) for s in FP8_SCHEDULES] == list(FP8_SCHEDULES)
    for schedule in FP8_SCHEDULES:  # two accumulators in the registers of the warpgroups that share a tile
        groups = 1 if schedule.pingpong else schedule.tile_m // 64
        assert 2 * schedule.tile_m * schedule.tile_n // (128 * groups) <= 192


def test_a_task_without_room_for_scales_is_refused_in_one_sentence():
    source = SOURCE.replace("linear_scale_bias(acc, row_scale, col_scale, bias)", "linear_bias(acc, bias)")
    verdict = gate.check(catalogue()["linear_bias"], source, storage="fp8").verdict
    assert verdict.status == "failed"
    assert verdict.note == (
        "the gate could not finish: task 'linear_bias' is for bf16, fp16, and fp8 is asked; "
        "with fp8 operands it is linear_bias_fp8"
    )


def test_bare_template_multiplies_fp8_into_bf16_under_the_schedules_that_do_not_spill():
    made = [signature for _, signature in bare_kernels(TASK, "fp8")]
    assert [s.schedule for s in made] == list(FP8_SCHEDULES[:4])
    assert {n: t.dtype for n, t in made[0].tensors.items()} == {"a": "fp8", "b": "fp8", "product": "bf16"}
    assert {t.dtype for t in bare_kernels(TASK, "fp16")[0][1].tensors.values()} == {"fp16"}


def test_bare_fp8_kernel_compiles_without_a_gpu_and_without_spilling(tmp_path):
    with Compiler(tmp_path) as compiler:
        compiled = compiler.submit(*bare_kernels(TASK, "fp8")[1]).result()
    assert compiled.ok, compiled.error
    assert compiled.spill_bytes == 0 and compiled.stages >= 4


def test_baselines_multiply_fp8_by_scaled_mm():
    inputs = draw(TASK, Workload(sizes=SIZES, storage="fp8"))
    out = torch.empty(40, 48, dtype=torch.bfloat16)
    baselines.product(TASK, BareSet({"a": inputs["x"], "b": inputs["w"]}, {"product": out}, {}))
    expected = (inputs["x"].double() @ inputs["w"].double().T).bfloat16()
    torch.testing.assert_close(out, expected, rtol=2**-7, atol=0)
    answer = by_scaled_mm(TASK.reference, inputs)(**inputs)["y"]
    expected = out * inputs["row_scale"][:, None] * inputs["col_scale"] + inputs["bias"]
    torch.testing.assert_close(answer, expected)
    plain = draw(TASK, Workload(sizes=SIZES))
    assert by_scaled_mm(TASK.reference, plain) is TASK.reference


def test_roofline_of_fp8_counts_bytes_of_operands_once_and_twice_the_rate():
    small, plain = (Workload(sizes={"M": 8192, "N": 8192, "K": 8192}, storage=s) for s in ("fp8", "bf16"))
    operands = 2 * 8192 * 8192
    assert roofline.compulsory_bytes(TASK, plain) - roofline.compulsory_bytes(TASK, small) == operands
    assert roofline.pointwise_bytes(TASK, plain) == roofline.pointwise_bytes(TASK, small)
    milliseconds = roofline.roofline_ms(TASK, small, "NVIDIA H200")
    assert milliseconds == pytest.approx(1e3 * 2 * prod(small.sizes.values()) / 1979e12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(16, 72, dtype=torch.float8_e4m3fn)}, "x is 72 wide, and that must be a multiple of 16"),
        ({"x": torch.zeros(80, 16, dtype=torch.float8_e4m3fn).t()}, "x is not contiguous"),
        ({"x": torch.zeros(16, 80, dtype=torch.bfloat16)}, "x is torch.bfloat16, and torch.float8_e4m3fn is wanted"),
        ({"bias": torch.zeros(48, dtype=torch.float8_e4m3fn)}, "bias is torch.float8_e4m3fn, and torch.bfloat16"),
    ],
)
def test_operands_that_no_fp8_kernel_takes_are_refused_in_one_sentence(change, words, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: True))
    inputs = draw(TASK, Workload(sizes={**SIZES, "M": 16}, storage="fp8"))
    assert refuse(signature(), inputs) is None
    k = 72 if "72" in words else 80
    inputs["w"] = inputs["w"][:, :k].contiguous()
    assert words in refuse(signature(), {**inputs, **change})


def test_the_loaded_task_offers_what_the_file_declares():
    assert load_task("linear_scale_bias").storages == ("bf16", "fp16", "fp8")
