"""What the reader makes of sources inside the language."""

import time

import pytest
import torch
from codasmith.primitives import GraphError, Operand, evaluate, read
from codasmith.primitives.graph import ACC, CONST, OPERAND

OPERANDS = (
    Operand(name="rstd", rows=True, cols=0),
    Operand(name="bias", rows=False, cols=2),
    Operand(name="res", rows=True, cols=2),
    Operand(name="cap", rows=False, cols=0),
    Operand(name="target", rows=True, cols=0, index=True),
)
IMPORTS = (
    "from codasmith.primitives import epilogue, abs, clamp, exp, relu, rotate, row_lse, row_sum, select, "
    "silu, softcap, unpack, pack, where\n"
)


def graph(body, parameters="acc, rstd, bias, res, cap, target", before=""):
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    return read(f"{IMPORTS}{before}@epilogue\ndef f({parameters}):\n{lines}", OPERANDS)


def same(a, b, **more):
    assert graph(a, **more).digest == graph(b).digest


def test_nodes_carry_the_lines_of_the_source():
    g = graph('y = acc * rstd\nreturn {"o": silu(y)}')
    assert {n.op: n.line for n in g.nodes} == {ACC: 3, OPERAND: 3, "mul": 4, "silu": 5}


def test_names_of_locals_and_order_of_statements_do_not_change_the_digest():
    same('a = acc * rstd\nb = res + bias\nreturn {"o": a + b}', 'q = res + bias\np = acc * rstd\nreturn {"o": p + q}')


def test_order_of_parameters_and_of_keys_does_not_change_the_digest():
    same(
        'return {"o": acc + res, "s": row_sum(res)}',
        'return {"s": row_sum(res), "o": acc + res}',
        parameters="acc, target, res",
    )


def test_another_formula_has_another_digest():
    digests = {
        graph(f'return {{"o": {e}}}').digest
        for e in ("acc - res", "res - acc", "acc + res", "acc + bias", "acc + 0.0", "acc + -0.0")
    }
    assert len(digests) == 6


def test_the_kind_of_an_operand_is_part_of_the_digest():
    source = IMPORTS + '@epilogue\ndef f(acc, v):\n    return {"o": acc * v}\n'
    row, col = Operand(name="v", rows=False, cols=2), Operand(name="v", rows=True, cols=0)
    assert read(source, [row]).digest != read(source, [col]).digest


def test_equal_expressions_are_one_node():
    g = graph('return {"o": exp(acc) + exp(acc)}')
    assert [n.op for n in g.nodes] == [ACC, "exp", "add"]


@pytest.mark.parametrize(
    "power, product",
    [("** 2", "acc * acc"), ("** 3", "acc * acc * acc"), ("** 4", "(acc * acc) * (acc * acc)")],
)
def test_small_powers_are_products(power, product):
    same(f'return {{"o": acc {power}}}', f'return {{"o": {product}}}')


@pytest.mark.parametrize("power, op", [("0.5", "sqrt"), ("-0.5", "rsqrt"), ("-1", "reciprocal")])
def test_roots_and_reciprocals(power, op):
    assert [n.op for n in graph(f'return {{"o": acc ** {power}}}').nodes] == [ACC, op]


def test_arithmetic_of_constants_is_done_while_reading():
    g = graph('return {"o": acc * SCALE - (1 + 2) / -4}', before="HALF = 1 / 2\nSCALE = -HALF * 3 ** 2\n")
    assert [n.value for n in g.nodes if n.op == CONST] == [-4.5, -0.75]


def test_helpers_are_inlined():
    helper = "def gate(x, y=None):\n    return x\n"
    with pytest.raises(GraphError, match="default"):
        graph('return {"o": gate(acc)}', before=helper)
    helper = "def split(x, scale):\n    y = x * scale\n    e, o = unpack(y)\n    return e, o\n"
    same(
        'a, b = split(acc, scale=rstd)\nreturn {"o": silu(a) * b}',
        'a, b = unpack(acc * rstd)\nreturn {"o": silu(a) * b}',
        before=helper,
    )


def test_a_helper_may_stand_below_and_call_another():
    source = (
        IMPORTS + '@epilogue\ndef f(acc):\n    return {"o": twice(acc)}\n'
        "def twice(x):\n    return 2 * once(x)\ndef once(x):\n    'doc'\n    return silu(x)\n"
    )
    assert read(source, ()).digest == graph('return {"o": 2 * silu(acc)}').digest


def test_a_helpers_names_are_its_own():
    helper = "def h(x):\n    y = x + 1\n    return y\n"
    same('y = acc\nz = h(acc)\nreturn {"o": y * z}', 'return {"o": acc * (acc + 1)}', before=helper)


def test_a_helper_that_nothing_calls_does_no_harm():
    same('return {"o": acc}', 'return {"o": acc}', before="def unused(x):\n    return x * undefined\n")


def test_rotate_is_written_out():
    same(
        'c, s = unpack(res)\nreturn {"o": rotate(acc, c, s)}',
        'a, b = unpack(acc)\nc, s = unpack(res)\nreturn {"o": pack(a * c - b * s, a * s + b * c)}',
    )
    assert "rotate" not in {n.op for n in graph('c, s = unpack(res)\nreturn {"o": rotate(acc, c, s)}').nodes}


def test_tuples_augmented_and_chained_assignment():
    same(
        'a, (b, c) = acc, (res, bias)\nx = y = a\nx += b\nx *= c\nreturn {"o": x - y}',
        'return {"o": (acc + res) * bias - acc}',
    )


def test_primitives_take_arguments_by_name():
    same('return {"o": clamp(acc, high=2, low=-1)}', 'return {"o": clamp(acc, -1, 2)}')


def test_imports_may_rename():
    before = "from codasmith.primitives import silu as swish, exp\n"
    same('return {"o": swish(acc)}', 'return {"o": silu(acc)}', before=before)


def test_conditions():
    same(
        'return {"o": where((acc > 0) & (acc <= res) | (acc != 1), acc, -acc)}',
        'big = acc > 0\nc = big & (acc <= res)\nreturn {"o": where(c | (acc != 1), acc, -acc)}',
    )


def test_an_operand_may_be_called_like_a_primitive():
    source = (
        'from codasmith.primitives import epilogue, cos\n@epilogue\ndef f(acc, cos):\n    return {"o": acc * cos}\n'
    )
    g = read(source, [Operand(name="cos", rows=True, cols=2)])
    assert [n.op for n in g.nodes] == [ACC, OPERAND, "mul"]


def test_unused_operands_are_kept_apart_from_used_ones():
    g = graph('return {"o": acc * rstd}')
    assert [o.name for o in g.used_operands] == ["rstd"]
    assert len(g.operands) == 5


def test_select_takes_the_index_operand():
    g = graph('return {"t": select(acc * cap, target)}')
    assert g.nodes[g.outputs["t"]].op == "select"
    assert g.nodes[g.nodes[g.outputs["t"]].args[1]].name == "target"


def test_a_two_argument_sum_keeps_both():
    g = graph('return {"s": row_sum(acc, res)}')
    assert len(g.nodes[g.outputs["s"]].args) == 2


def test_one_of_several_epilogues_is_chosen_by_name():
    source = IMPORTS + '@epilogue\ndef f(acc):\n    return {"o": acc}\n@epilogue\ndef g(acc):\n    return {"o": -acc}\n'
    assert [n.op for n in read(source, (), name="g").nodes] == [ACC, "neg"]
    with pytest.raises(GraphError, match="Two functions"):
        read(source, ())
    with pytest.raises(GraphError, match="called h"):
        read(source, (), name="h")


def test_json_round_trip_keeps_digest_and_lines():
    g = graph('y = acc * 0.1\nreturn {"o": y, "s": row_sum(y, y)}')
    again = type(g).model_validate_json(g.model_dump_json())
    assert again == g
    assert again.digest == g.digest


def test_comments_and_docstrings_may_hold_any_letters():
    g = graph('"""Größe — γ."""\n# κ\nreturn {"o": acc}')
    assert [n.op for n in g.nodes] == [ACC]


def test_the_function_is_an_ordinary_one_on_tensors():
    source = IMPORTS + '@epilogue\ndef f(acc, rstd):\n    return {"o": silu(acc * rstd)}\n'
    namespace = {}
    exec(source, namespace)
    acc, rstd = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    direct = namespace["f"](acc, rstd[:, None])["o"]
    assert namespace["f"].is_epilogue
    assert torch.allclose(direct, evaluate(read(source, OPERANDS), acc, {"rstd": rstd})["o"], rtol=1e-12)


def test_reading_fits_the_budget_of_the_gate():
    body = "\n".join(f"y{i} = silu(acc * {i}.5) + {i}" for i in range(100))
    start = time.perf_counter()
    graph(body + "\nreturn {'o': " + " + ".join(f"y{i}" for i in range(60)) + "}")
    assert time.perf_counter() - start < 1.0
