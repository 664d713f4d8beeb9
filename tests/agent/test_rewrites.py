"""The built-in search's rewrites: each keeps the meaning, and each changes the kernel's source."""

import pytest
import torch
from codasmith.agent.models.search import REWRITES, BuiltinSearch
from codasmith.agent.models.tracer import trace
from codasmith.gate.frame import frame_of
from codasmith.gate.interpret import interpret_stage
from codasmith.primitives import Operand, evaluate, read
from codasmith.primitives.graph import Builder
from codasmith.tasks import catalogue
from codasmith.templates.generate import Frame, generate
from codasmith.templates.schedule import SCHEDULES
from codasmith.templates.signature import TensorSpec
from hypothesis import given, settings
from hypothesis import strategies as st

M, N = 3, 64
OPERANDS = (
    Operand(name="tile", rows=True, cols=2),
    Operand(name="row", rows=False, cols=2),
    Operand(name="bias", rows=False, cols=2),
    Operand(name="col", rows=True, cols=0),
    Operand(name="rstd", rows=True, cols=0),
    Operand(name="alpha", rows=False, cols=0),
)
SHAPES = {"tile": (M, N), "row": (N,), "bias": (N,), "col": (M,), "rstd": (M,), "alpha": ()}
UNARY = ("neg", "abs", "tanh", "relu", "relu_grad", "sigmoid", "silu", "sigmoid_grad", "silu_grad", "gelu", "gelu_grad")


@st.composite
def graphs(draw):
    """Random epilogues out of what the rewrites look for: chains of sums and products, activations, selections."""
    b = Builder(OPERANDS)
    wide = [b.acc(), b.operand("tile")]
    narrow = [*(b.operand(o.name) for o in OPERANDS[1:]), b.const(1.0), b.const(0.25), b.const(0.0)]

    def any_of(nodes):
        return nodes[draw(st.integers(0, len(nodes) - 1))]

    for _ in range(draw(st.integers(2, 9))):
        kind = draw(st.sampled_from(["unary", "mul", "mul", "add", "sub", "where", "leaky", "div", "softcap"]))
        x, y = any_of(wide), any_of(wide + narrow)
        if kind == "unary":
            made = b.add(draw(st.sampled_from(UNARY)), (x,))
        elif kind in ("mul", "add", "sub"):
            made = b.add(kind, (x, y) if draw(st.booleans()) else (y, x))
        elif kind == "where":
            made = b.add("where", (b.add("gt", (x, b.const(0.0))), y, x))
        elif kind == "leaky":
            test, order = draw(st.sampled_from([("gt", 0), ("ge", 0), ("lt", 1), ("le", 1)]))
            scaled = b.add("mul", (x, b.const(0.25)))
            made = b.add("where", (b.add(test, (x, b.const(0.0))), *((x, scaled) if order == 0 else (scaled, x))))
        else:  # away from zero, where a quotient means nothing
            positive = b.add("add", (b.add("mul", (y, y)), b.const(1.0)))
            made = b.add(kind, (x, b.add("sqrt", (positive,)) if draw(st.booleans()) else positive))
        wide.append(made)
    outputs = {"o": wide[-1], "p": any_of(wide[2:])}
    if draw(st.booleans()):
        outputs["s"] = b.add("row_sum", (any_of(wide), any_of(wide)))
    return b.finish(outputs).canonical()


def kernel(graph):
    """The source that is compiled, named by its content."""
    tensors = {"a": TensorSpec(shape=((1, "M"), (1, "K")), dtype="bf16")}
    tensors["b"] = TensorSpec(shape=((1, "N"), (1, "K")), dtype="bf16")
    for o in OPERANDS:
        shape = (((1, "M"),) if o.rows else ()) + (((1, "N"),) if o.cols else ())
        tensors[o.name] = TensorSpec(shape=shape, dtype="f32")
    for name, i in graph.outputs.items():
        shape = ((1, "M"),) if graph.types[i].reduced else ((1, "M"), (1, "N"))
        tensors[name] = TensorSpec(shape=shape, dtype="f32")
    frame = Frame(
        task="t",
        storage="bf16",
        a="a",
        a_transposed=False,
        b="b",
        b_transposed=True,
        tensors=tensors,
        inputs=("a", "b", *(o.name for o in OPERANDS)),
        outputs=tuple(graph.outputs),
    )
    return generate(graph, frame, SCHEDULES[0]).digest


@pytest.mark.parametrize("name", REWRITES)
@settings(max_examples=60, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 2**16))
def test_a_rewrite_keeps_the_meaning_and_changes_the_kernel(name, graph, seed):
    rewritten = REWRITES[name](graph)
    if rewritten is None:
        return
    random = torch.Generator().manual_seed(seed)
    acc = 2 * torch.randn(M, N, generator=random, dtype=torch.float64)
    operands = {k: torch.randn(shape, generator=random, dtype=torch.float64) for k, shape in SHAPES.items()}
    before, after = evaluate(graph, acc, operands), evaluate(rewritten, acc, operands)
    for output, value in before.items():
        scale = float(value.abs().amax())
        torch.testing.assert_close(after[output], value, rtol=1e-11, atol=1e-11 * max(scale, 1.0))
    if graph.uses_accumulator:
        assert kernel(rewritten) != kernel(graph)


EXAMPLES = {
    "no_division": ("softcap(acc, alpha) + tile / sqrt(col)",
                    "alpha * tanh(acc * reciprocal(alpha)) + tile * rsqrt(col)"),
    "sigmoid_by_tanh": ("silu(acc)", "acc * 0.5 * tanh(acc * 0.5) + acc * 0.5"),
    "select_to_extremum": ("where(0 < acc, acc, 0.1 * acc) + tile * relu_grad(acc)",
                           "maximum(acc, 0.1 * acc) + where(acc > 0, tile, 0)"),
    "shared_products": ("acc * tile * row * alpha + exp(row * acc)", "acc * row * tile * alpha + exp(acc * row)"),
    "fused_products": ("tanh((acc + 1) * tile) + tanh((1 - acc) * tile)",
                       "tanh(acc * tile + tile) + tanh(tile - acc * tile)"),
    "scale_and_shift": ("tanh((acc - bias) * row)", "tanh(acc * row - bias * row)"),
    "narrow_factors_first": ("acc * rstd * tile * col * row * alpha", "acc * tile * (alpha * rstd * col) * row"),
    "narrow_summands_first": ("acc + bias + tile + row + 2", "acc + tile + (2 + bias + row)"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_rewrite_makes(name):
    before, after = (expression(e) for e in EXAMPLES[name])
    assert REWRITES[name](before).digest == after.digest
    assert REWRITES[name](after) is None, "and nothing is left to do"


STANDS = {
    "no_division": "acc / 3",
    "fused_products": "acc + (1 - tile) * row",  # the sum takes the product in already
    "scale_and_shift": "(acc + bias) * row + tile",
    "narrow_factors_first": "acc * rstd * row",
    "narrow_summands_first": "acc + bias + tile",
    "select_to_extremum": "where(acc > 0, acc, 2 * acc)",
    "shared_products": "acc * tile + acc * row",
    "sigmoid_by_tanh": "tanh(acc)",
}


@pytest.mark.parametrize("name", STANDS)
def test_what_gains_nothing_stands(name):
    assert REWRITES[name](expression(STANDS[name])) is None


def test_a_product_that_is_needed_twice_is_not_taken_apart():
    graph = expression("tanh((acc + 1) * tile) + exp(acc + 1)")
    assert REWRITES["fused_products"](graph) is None


def expression(text):
    words = "epilogue, exp, gelu, maximum, reciprocal, relu_grad, rsqrt, silu, softcap, sqrt, tanh, where"
    names = ", ".join(o.name for o in OPERANDS if o.name in text)
    head = f"from codasmith.primitives import {words}\n@epilogue\ndef f(acc, {names}):\n"
    return read(f'{head}    return {{"o": {text}}}\n', OPERANDS)


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_every_rewrite_of_a_task_of_the_catalogue_says_what_its_reference_says(name):
    task = catalogue()[name]
    model = BuiltinSearch()
    model.prepare(task)
    traced = trace(task)
    variants = {r: model._rewritten((r,)) for r in REWRITES} | {"all": model._rewritten(tuple(REWRITES))}
    for rewrites, graph in variants.items():
        if graph.digest == traced.digest:
            continue
        assert interpret_stage(task, graph).finding is None, rewrites
        sources = [generate(g, frame_of(task, "bf16"), SCHEDULES[0]).source for g in (traced, graph)]
        assert sources[0] != sources[1], rewrites
