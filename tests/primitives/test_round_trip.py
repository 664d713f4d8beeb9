"""Graph to source and back, over random graphs."""

import keyword
from random import Random

import torch
from codasmith.primitives import REGISTRY, Builder, Graph, GraphError, Operand, evaluate, read, to_source
from codasmith.primitives.infer import check_output
from hypothesis import given, settings
from hypothesis import strategies as st

OPERANDS = (
    Operand(name="bias", rows=False, cols=2),
    Operand(name="rstd", rows=True, cols=0),
    Operand(name="res", rows=True, cols=2),
    Operand(name="z", rows=True, cols=4),
    Operand(name="side", rows=True, cols=1),
    Operand(name="cos", rows=True, cols=2),
    Operand(name="even", rows=False, cols=1),
    Operand(name="silu", rows=False, cols=0),
    Operand(name="target", rows=True, cols=0, index=True),
)
OPS = [name for name in REGISTRY if name not in ("unpack", "rotate")]
NAMES = ["o", "h", "even", "y", "acc", "res", "sumsq", "total", "class_"]


@st.composite
def graphs(draw):
    """Random graphs that the builder accepts, with at least one output."""
    builder = Builder(OPERANDS)
    nodes = [builder.acc(), *(builder.operand(o.name) for o in OPERANDS)]
    for _ in range(draw(st.integers(1, 25))):
        op = draw(st.sampled_from([*OPS, "even", "odd", "const", "const"]))
        try:
            if op == "const":
                nodes.append(builder.const(draw(st.floats(-1e30, 1e30, width=64))))
                continue
            primitive = REGISTRY.get(op)
            count = draw(st.integers(primitive.required, len(primitive.parameters))) if primitive else 1
            # Recent nodes more often, so that expressions grow deep.
            args = tuple(draw(st.sampled_from([*nodes, *nodes[-3:] * 4])) for _ in range(count))
            nodes.append(builder.add(op, args))
        except GraphError:
            continue
    good = []
    for i in nodes:
        try:
            check_output("o", builder.types[i])
            good.append(i)
        except GraphError:
            continue
    picked = draw(st.lists(st.sampled_from(good[-8:]), min_size=1, max_size=4))
    return builder.finish(dict(zip(NAMES, picked, strict=False)))


@settings(max_examples=120, deadline=None)
@given(graph=graphs(), name=st.sampled_from(["f", "silu", "cos", "epilogue", "acc", "lambda", "9 lives", "total"]))
def test_reading_what_was_written_gives_the_same_graph(graph, name):
    source = to_source(graph, name)
    again = read(source, OPERANDS)
    assert again.digest == graph.digest, source
    assert to_source(again, name) == source


@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_the_written_source_is_tidy(graph):
    source = to_source(graph, "f")
    lines = source.splitlines()
    assert max(map(len, lines)) <= 130, source
    header = source[: source.index("@epilogue")]
    body = source[source.index("@epilogue") + 9 :]
    for entry in header.replace("from codasmith.primitives import", "").strip(" ()\n").replace("\n", "").split(","):
        local = entry.split(" as ")[-1].strip()
        assert local in ("", "epilogue") or f"{local}(" in body, source


@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_json_and_canonical_form_keep_the_digest(graph):
    assert Graph.model_validate_json(graph.model_dump_json()).digest == graph.digest
    assert graph.canonical().digest == graph.digest
    assert graph.canonical().canonical() == graph.canonical()


@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_every_graph_can_be_computed_and_has_the_shapes_of_its_types(graph):
    m, n = 3, 4
    shapes = {"tile": lambda o: (m, n * o.cols // 2), "row": lambda o: (n * o.cols // 2,), "col": lambda o: (m,)}
    operands = {o.name: torch.rand(shapes[o.kind](o), dtype=torch.float64) for o in OPERANDS if o.kind in shapes}
    operands |= {"silu": 0.5, "target": torch.tensor([0, 3, 1], dtype=torch.int32)}
    outputs = evaluate(graph, torch.rand(m, n, dtype=torch.float64), operands)
    types = graph.types
    for name, i in graph.outputs.items():
        width = n * types[i].cols // 2
        expected = {"": (m, width), "row": (m,), "col": (width,)}[types[i].reduced]
        assert tuple(outputs[name].shape) == expected, name
        assert outputs[name].dtype == torch.float64


def number(builder, random, depth):
    """A random tree of operators: what has to get its parentheses right."""
    if depth == 0 or random.random() < 0.1:
        leaf = random.choice(["acc", "res", "bias", 1.5, -2.0, -0.0])
        if isinstance(leaf, float):
            return builder.const(leaf)
        return builder.acc() if leaf == "acc" else builder.operand(leaf)
    op = random.choice(["add", "sub", "mul", "div", "neg", "where"])
    first = [condition(builder, random, depth - 1)] if op == "where" else []
    rest = [number(builder, random, depth - 1) for _ in range(1 if op == "neg" else 2)]
    return builder.add(op, (*first, *rest))


def condition(builder, random, depth):
    if depth <= 0 or random.random() < 0.3:
        return builder.add(random.choice(["lt", "ge", "ne"]), tuple(number(builder, random, 1) for _ in range(2)))
    op = random.choice(["logical_and", "logical_or"])
    return builder.add(op, tuple(condition(builder, random, depth - 1) for _ in range(2)))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), depth=st.integers(1, 4))
def test_parentheses_keep_the_meaning(seed, depth):
    builder = Builder(OPERANDS)
    try:
        value = number(builder, Random(seed), depth)
        graph = builder.finish({"o": builder.add("add", (builder.acc(), value))})
    except GraphError:
        return  # a division by zero among constants
    source = to_source(graph, "f")
    assert read(source, OPERANDS).digest == graph.digest, source


def test_names_come_from_outputs_and_gates():
    source = """from codasmith.primitives import epilogue, row_sum, silu, unpack


@epilogue
def rmsnorm_swiglu(acc, rstd, z):
    h = acc * rstd
    gate, up = unpack(h)
    z_even, _ = unpack(z)
    return {"h": h, "o": silu(gate) * up, "s": row_sum(h, h), "w": z_even - (h - -1.5)}
"""
    assert to_source(read(source, OPERANDS), "rmsnorm_swiglu") == source


def test_parentheses_stand_only_where_they_are_needed():
    expressions = [
        "acc + res * bias - (res - acc)",
        "acc * (res * bias) / (acc / res)",
        "-(acc + res) * bias",
        "-(acc * res)",
        "-(-acc)",
        "where((acc > 0.0) & ((res < acc + 1.0) | (res != bias)), acc, -res)",
        "where((acc > 0.0) & (res <= 1.0) | (acc == res), acc, res)",
    ]
    for expression in expressions:
        head = "from codasmith.primitives import epilogue, where\n@epilogue\ndef f(acc, bias, res):\n"
        source = f"{head}    return {{'o': {expression}}}\n"
        written = to_source(read(source, OPERANDS), "f")
        # Shared subexpressions get names; those that stay whole must look as they did.
        if " = " not in written:
            assert f'"o": {expression}}}' in written
        assert read(written, OPERANDS).digest == read(source, OPERANDS).digest


def test_function_names_are_legal():
    graph = read('from codasmith.primitives import epilogue\n@epilogue\ndef f(acc):\n    return {"o": acc}\n', ())
    for name in ("class", "", "héllo", "1st", "a-b", "epilogue", "acc"):
        line = next(text for text in to_source(graph, name).splitlines() if text.startswith("def "))
        written = line.removeprefix("def ").split("(")[0]
        assert written.isidentifier() and written.isascii() and not keyword.iskeyword(written)
        assert written not in ("epilogue", "acc")
