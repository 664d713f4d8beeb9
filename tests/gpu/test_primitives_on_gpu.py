"""Every primitive, compiled and run: the kernel must agree with the primitive's torch meaning in float64."""

from __future__ import annotations

import pytest
import torch
from codasmith.gate.frame import frame_of
from codasmith.primitives import REGISTRY, evaluate
from codasmith.primitives.graph import Builder
from codasmith.tasks import Tensor, task
from codasmith.templates.compile import Compiler
from codasmith.templates.generate import generate
from codasmith.templates.launch import Kernel
from codasmith.templates.schedule import SCHEDULES

pytestmark = pytest.mark.gpu

SIZES = {"M": 257, "N": 392, "F": 392, "K": 72}
TRUTH = {"lt", "le", "gt", "ge", "eq", "ne"}
POSITIVE = {"log", "sqrt", "rsqrt", "reciprocal"}
LOOSE = {"tanh": 2e-3, "gelu_tanh": 4e-3, "softcap": 2e-3, "gelu_tanh_grad": 8e-3}
"""Relative to the output's scale, for what uses the tanh unit; others agree to 4e-6."""
VALUES = sorted(n for n, p in REGISTRY.items() if p.group == "values")
SCHEDULE = {s.name: s for s in SCHEDULES}


@task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), b=Tensor("M N", "f32"), out={"y": Tensor("M N", "f32")})
def pointwise(x, w, b):
    return {"y": x @ w.T + b}


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K"),
    target=Tensor("M", "i64", low=0, high="N"),
    out={k: Tensor("M", "f32") for k in ("s", "p", "m", "a", "lse", "t")}
    | {k: Tensor("N", "f32") for k in ("cs", "cp", "cm", "ca")},
)
def reduced(x, w, target):
    y = x @ w.T
    e = y.exp()
    rows = {"s": e.sum(-1), "p": (e * y).sum(-1), "m": y.amax(-1), "a": e.abs().amax(-1), "lse": torch.logsumexp(y, -1)}
    columns = {"cs": e.sum(0), "cp": (e * y).sum(0), "cm": y.amax(0), "ca": e.abs().amax(0)}
    return {**rows, "t": y.gather(-1, target[:, None])[:, 0], **columns}


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("2F K"),
    out={"o": Tensor("M F")}
    | {k: Tensor("M", "f32") for k in ("s", "m", "a", "lse", "zs")}
    | {k: Tensor("F", "f32") for k in ("cs", "cm", "ca")},
)
def paired(x, w):
    z = x @ w.T
    y = z[:, 0::2] * 0.5 - z[:, 1::2]
    e = y.exp()
    rows = {"s": e.sum(-1), "m": y.amax(-1), "a": e.amax(-1), "lse": torch.logsumexp(y, -1), "zs": z.exp().sum(-1)}
    return {"o": y, **rows, "cs": e.sum(0), "cm": y.amax(0), "ca": e.amax(0)}


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("F K"),
    z=Tensor("M 2F"),
    out={
        "dz": Tensor("M 2F"),
        "s": Tensor("M", "f32"),
        "m": Tensor("M", "f32"),
        "cs": Tensor("2F", "f32"),
        "ch": Tensor("F", "f32"),
    },
)
def packed(x, w, z):
    d = x @ w.T
    dz = torch.stack((d * z[:, 0::2] + 1, d - z[:, 1::2]), -1).flatten(-2)
    return {"dz": dz, "s": dz.exp().sum(-1), "m": dz.amax(-1), "cs": dz.exp().sum(0), "ch": d.exp().sum(0)}


def graph_of_value(name: str):
    builder = Builder(pointwise.operands.values())
    a, b = builder.acc(), builder.operand("b")
    zero, one = builder.const(0.0), builder.const(1.0)
    if name in POSITIVE:
        a = builder.add("add", (builder.add("abs", (a,)), builder.const(0.25)))
    if name == "where":
        y = builder.add("where", (builder.add("gt", (a, b)), a, b))
    elif name in ("logical_and", "logical_or"):
        both = builder.add(name, (builder.add("gt", (a, zero)), builder.add("gt", (b, zero))))
        y = builder.add("where", (both, one, zero))
    elif name in TRUTH:
        y = builder.add("where", (builder.add(name, (a, b)), one, zero))
    elif name == "clamp":
        y = builder.add("clamp", (a, builder.const(-1.0), b))
    elif name == "softcap":
        y = builder.add("softcap", (a, builder.const(3.0)))
    elif name == "div":
        y = builder.add("div", (a, builder.add("add", (builder.add("abs", (b,)), builder.const(0.5)))))
    else:
        y = builder.add(name, (a, b)[: len(REGISTRY[name].parameters)])
    return builder.finish({"y": y})


def graph_of_reductions(kind: str):
    if kind == "reduced":
        builder = Builder(reduced.operands.values())
        y = builder.acc()
        e = builder.add("exp", (y,))
        rows = {"s": ("row_sum", (e,)), "p": ("row_sum", (e, y)), "m": ("row_max", (y,)), "a": ("row_absmax", (e,))}
        rest = {"lse": ("row_lse", (y,)), "t": ("select", (y, builder.operand("target")))}
        columns = {
            "cs": ("col_sum", (e,)),
            "cp": ("col_sum", (e, y)),
            "cm": ("col_max", (y,)),
            "ca": ("col_absmax", (e,)),
        }
        return builder.finish({k: builder.add(*v) for k, v in {**rows, **rest, **columns}.items()})
    if kind == "paired":
        builder = Builder(paired.operands.values())
        z = builder.acc()
        even, odd = builder.add("even", (z,)), builder.add("odd", (z,))
        y = builder.add("sub", (builder.add("mul", (even, builder.const(0.5))), odd))
        e = builder.add("exp", (y,))
        ops = {"s": ("row_sum", e), "m": ("row_max", y), "a": ("row_absmax", e), "lse": ("row_lse", y)}
        more = {
            "zs": ("row_sum", builder.add("exp", (z,))),
            "cs": ("col_sum", e),
            "cm": ("col_max", y),
            "ca": ("col_absmax", e),
        }
        return builder.finish({"o": y, **{k: builder.add(op, (v,)) for k, (op, v) in {**ops, **more}.items()}})
    builder = Builder(packed.operands.values())
    d, z = builder.acc(), builder.operand("z")
    even = builder.add("add", (builder.add("mul", (d, builder.add("even", (z,)))), builder.const(1.0)))
    dz = builder.add("pack", (even, builder.add("sub", (d, builder.add("odd", (z,))))))
    e = builder.add("exp", (dz,))
    ops = {"s": ("row_sum", e), "m": ("row_max", dz), "cs": ("col_sum", e), "ch": ("col_sum", builder.add("exp", (d,)))}
    return builder.finish({"dz": dz, **{k: builder.add(op, (v,)) for k, (op, v) in ops.items()}})


TASKS = {"reduced": reduced, "paired": paired, "packed": packed}


@pytest.fixture(scope="module")
def kernels():
    """Everything these tests run, compiled at once: the futures by key."""
    with Compiler() as compiler:
        futures = {}
        for name in VALUES:
            made = generate(graph_of_value(name), frame_of(pointwise, "bf16"), SCHEDULE["128x128-pingpong-2x1"])
            futures[name] = compiler.submit(made.source, made.signature)
        for kind, problem in TASKS.items():
            for schedule in SCHEDULES:
                made = generate(graph_of_reductions(kind), frame_of(problem, "bf16"), schedule)
                futures[kind, schedule.name] = compiler.submit(made.source, made.signature)
        yield futures


def drawn(problem) -> dict:
    """Multiples of a quarter, so that the accumulator is exact."""
    generator = torch.Generator("cuda").manual_seed(1)
    inputs = {}
    for name, tensor in problem.tensors.items():
        size = tensor.size(SIZES)
        if tensor.is_index:
            inputs[name] = torch.randint(0, SIZES["N"], size, generator=generator, device="cuda")
            continue
        values = torch.randint(-2, 3, size, generator=generator, device="cuda") / 4
        if name == "w":
            values = values * (torch.rand(size, generator=generator, device="cuda") < 0.3)
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


@pytest.mark.parametrize("name", VALUES)
def test_a_value_agrees_with_its_torch_meaning(kernels, name):
    inputs = drawn(pointwise)
    actual = run(kernels[name].result(), inputs)["y"].double()
    acc = inputs["x"].double() @ inputs["w"].double().T
    truth = evaluate(graph_of_value(name), acc, {"b": inputs["b"].double()})["y"]
    scale = truth.abs().max()
    assert scale > 0.1
    assert (actual - truth).abs().max() <= LOOSE.get(name, 4e-6) * scale


@pytest.mark.parametrize("schedule", [s.name for s in SCHEDULES])
@pytest.mark.parametrize("kind", list(TASKS))
def test_reductions_leave_out_the_lanes_beyond_a_ragged_edge(kernels, kind, schedule):
    problem = TASKS[kind]
    inputs = drawn(problem)
    actual = run(kernels[kind, schedule].result(), inputs)
    truth = problem.reference(**{k: v.double() if v.is_floating_point() else v for k, v in inputs.items()})
    for name, expected in truth.items():
        tolerance = 8e-3 if problem.outputs[name].dtype is None else 1e-5
        error = (actual[name].double() - expected).abs().max() / expected.abs().max()
        assert error <= tolerance, f"{name}: {error:.2e} on {schedule}"
