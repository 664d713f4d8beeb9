"""Loads and values of our own, compiled and run: the kernel must agree with the epilogue's torch meaning."""

from __future__ import annotations

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.primitives import evaluate, read
from codasmith.tasks import Tensor, cast, from_kernel, task, to_kernel
from codasmith.tasks.layout import accumulator
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.launch import Kernel
from codasmith.templates.schedule import SCHEDULES

pytestmark = pytest.mark.gpu

SIZES = {"M": 257, "N": 392, "F": 392, "H": 3, "K": 72}
TARGET = Tensor("M", "i64", low=0, high="N")
HALF_TARGET = Tensor("M", "i64", low=0, high="F")


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K"),
    target=TARGET,
    out={"y": Tensor("M N", "f32"), "s": Tensor("M", "f32"), "c": Tensor("N", "f32"), "t": Tensor("M", "f32")},
)
def elements(x, w, target): ...


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("2F K"),
    target=HALF_TARGET,
    out={"y": Tensor("M 2F", "f32"), "o": Tensor("M F"), "s": Tensor("M", "f32")}
    | {"wide": Tensor("M 2F"), "single": Tensor("M 2F", "f32")},
)
def pairs(x, w, target): ...


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("F K"),
    z=Tensor("M 2F"),
    target=HALF_TARGET,
    out={"dz": Tensor("M 2F"), "y": Tensor("M F", "f32")},
)
def packed(x, w, z, target): ...


@task(
    gemm="x @ w.T",
    level=2,
    x=Tensor("M K"),
    w=Tensor("2F K", layout="halves"),
    bias=Tensor("2F", layout="halves"),
    scale=Tensor("2F", "f32", layout="halves"),
    out={"o": Tensor("M F")},
)
def halves(x, w, bias, scale): ...


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("128H K"),
    scale=Tensor("M", "f32"),
    row=Tensor("128H"),
    res=Tensor("M 128H"),
    out={"y": Tensor("M 128H", "f32"), "s": Tensor("M", "f32"), "z": Tensor("M 128H", "f32")},
)
def heads(x, w, scale, row, res): ...


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("128H K"),
    out={"y": Tensor("M 128H", "f32"), "o": Tensor("M 64H")},
)
def head_pairs(x, w): ...


BODIES = {
    "heads": """t = head_sum(acc * scale + row, 128)
return {"y": acc + t, "z": res - head_sum(acc, 64), "s": row_sum(t)}""",
    "head_pairs": """a, b = unpack(acc + head_sum(acc, 128))
return {"y": pack(b, a), "o": a - b}""",
    "elements": """y = where(column_index(acc) == target, acc - 8.0, acc) + row_index(acc)
return {"y": y, "s": row_sum(acc + column_index(acc)), "c": col_sum(acc + row_index(acc)), "t": select(acc, target)}""",
    "pairs": """a, b = unpack(acc)
return {
    "y": acc + column_index(acc) * row_index(acc),
    "wide": pack(b, a),
    "single": acc * 3.0,
    "o": where(column_index(a) == target, a - 8.0, b),
    "s": row_sum(where(column_index(a) > row_index(a), a, 1.0)),
}""",
    "halves": """a, b = unpack(acc * scale + bias)
return {"o": a - b}""",
    "packed": """e, o = unpack(z + column_index(z))
return {"dz": pack(e + acc, o), "y": where(column_index(acc) == target, acc - 8.0, acc) + row_index(acc)}""",
}
PROBLEMS = {p.name: p for p in (elements, pairs, packed, halves, heads, head_pairs)}
IMPORT = (
    "from codasmith.primitives import col_sum, column_index, epilogue, head_sum, pack, row_index, row_sum, select\n"
    "from codasmith.primitives import unpack, where\n"
)


def graph_of(problem):
    lines = "".join(f"    {line}\n" for line in BODIES[problem.name].split("\n"))
    operands = list(problem.operands.values())
    return read(f"{IMPORT}@epilogue\ndef f({', '.join(['acc', *problem.operands])}):\n{lines}", operands)


@pytest.fixture(scope="module")
def kernels():
    with Compiler() as compiler:
        futures = {}
        for name, problem in PROBLEMS.items():
            for schedule in SCHEDULES:
                if problem in (heads, head_pairs) and schedule.tile_n % 128:
                    continue
                made = generate(graph_of(problem), frame_of(problem, "bf16"), schedule)
                futures[name, schedule.name] = compiler.submit(made.source, made.signature)
        yield futures


def drawn(problem, device="cuda") -> dict:
    """Small whole numbers, so that products and sums are exact."""
    generator = torch.Generator(device).manual_seed(1)
    inputs = {}
    for name, tensor in problem.tensors.items():
        size = tensor.size(SIZES)
        if tensor.is_index:
            inputs[name] = torch.randint(0, SIZES["N"], size, generator=generator, device=device)
            inputs[name][3:9] = -100
            continue
        values = torch.randint(-2, 3, size, generator=generator, device=device)
        inputs[name] = values.to(tensor.torch_dtype("bf16"))
    return inputs


def run(compiled, inputs) -> dict[str, torch.Tensor]:
    assert compiled.ok, compiled.error
    kernel = Kernel(compiled.object, compiled.signature)
    outputs = kernel.outputs_like(inputs)
    for tensor in outputs.values():
        tensor.fill_(float("nan"))
    kernel(inputs, outputs)
    torch.cuda.synchronize()
    return outputs


def meaning(problem, inputs) -> dict[str, torch.Tensor]:
    wide = cast(inputs, torch.float64)
    operands = {k: to_kernel(problem, k, wide[k]) for k in problem.operands}
    answer = evaluate(graph_of(problem), accumulator(problem, wide), operands)
    return {k: from_kernel(problem, k, v) for k, v in answer.items()}


@pytest.mark.parametrize("schedule", [s.name for s in SCHEDULES])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_kernel_agrees_with_the_torch_meaning(kernels, name, schedule):
    if (name, schedule) not in kernels:
        pytest.skip("its tiles hold no whole heads of 128")
    problem = PROBLEMS[name]
    inputs = drawn(problem)
    actual, expected = run(kernels[name, schedule].result(), inputs), meaning(problem, inputs)
    for key, truth in expected.items():
        rounded = truth.to(actual[key].dtype)
        assert torch.equal(actual[key].isnan(), rounded.isnan()), key
        assert torch.equal(actual[key].nan_to_num(), rounded.nan_to_num()), f"{key} on {schedule}"
