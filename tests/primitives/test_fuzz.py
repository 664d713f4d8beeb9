"""Syntax trees that nobody wrote: the reader answers with a graph or a finding, in time, and runs nothing."""

from __future__ import annotations

import ast
import time
from pathlib import Path
from random import Random

import pytest
from codasmith import verified_kernels
from codasmith.evals import mutate
from codasmith.primitives import Operand, ReadError, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OPERANDS = (Operand(name="rstd", rows=True, cols=0), Operand(name="bias", rows=False, cols=2))
NAMES = ("acc", "rstd", "bias", "g", "u", "silu", "exp", "where", "unpack", "pack", "row_sum", "open", "__import__")
names = st.sampled_from(NAMES).map(ast.Name)
constants = st.one_of(
    *(st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=3), st.binary(max_size=3)),
    *(st.none(), st.booleans(), st.complex_numbers(), st.just(...)),
).map(ast.Constant)
operators = st.sampled_from([ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.MatMult, ast.BitAnd, ast.BitOr])
comparisons = st.sampled_from([ast.Lt, ast.GtE, ast.Eq, ast.Is, ast.In, ast.NotIn])


def larger(inner):
    few = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(lambda a, o, b: ast.BinOp(a, o(), b), inner, operators, inner),
        st.builds(lambda a, o, b: ast.Compare(a, [o()], [b]), inner, comparisons, inner),
        st.builds(lambda a, o: ast.UnaryOp(o(), a), inner, st.sampled_from([ast.USub, ast.Not, ast.Invert, ast.UAdd])),
        st.builds(
            lambda f, a, k: ast.Call(f, a, [ast.keyword("x", v) for v in k]), inner, few, st.lists(inner, max_size=1)
        ),
        st.builds(ast.IfExp, inner, inner, inner),
        st.builds(lambda v, n: ast.Attribute(v, n), inner, st.sampled_from(["T", "__class__", "sum", "shape"])),
        st.builds(ast.Subscript, inner, inner),
        st.builds(lambda e: ast.Tuple(e), few),
        st.builds(lambda e: ast.List(e), few),
        st.builds(lambda k, v: ast.Dict([k], [v]), inner, inner),
        st.builds(lambda b: ast.Lambda(ast.arguments([], [ast.arg("q")], None, [], [], None, []), b), inner),
        st.builds(lambda e, i: ast.ListComp(e, [ast.comprehension(ast.Name("i"), i, [], 0)]), inner, inner),
        st.builds(lambda v: ast.JoinedStr([ast.FormattedValue(v, -1)]), inner),
        st.builds(lambda v: ast.NamedExpr(ast.Name("w"), v), inner),
        st.builds(ast.Await, inner),
        st.builds(ast.Starred, inner),
    )


expressions = st.recursive(st.one_of(names, constants), larger, max_leaves=14)
targets = st.one_of(names, st.builds(lambda a, b: ast.Tuple([a, b]), names, names), expressions)
statements = st.one_of(
    st.builds(lambda t, v: ast.Assign([t], v, lineno=1), targets, expressions),
    st.builds(lambda t, o, v: ast.AugAssign(t, o(), v), names, operators, expressions),
    st.builds(ast.Expr, expressions),
    st.builds(lambda t, b: ast.If(t, [ast.Expr(b)], []), expressions, expressions),
    st.builds(lambda t, b: ast.While(t, [ast.Expr(b)], []), expressions, expressions),
    st.builds(lambda i, b: ast.For(ast.Name("i"), i, [ast.Expr(b)], [], lineno=1), expressions, expressions),
    st.builds(lambda v: ast.Return(v), expressions),
    st.builds(lambda e: ast.Raise(e, None), expressions),
    st.builds(lambda v: ast.Global([v]), st.sampled_from(NAMES)),
    st.builds(lambda v: ast.Delete([v]), names),
)
HEAD = "from codasmith.primitives import epilogue, exp, pack, row_sum, silu, unpack, where\n\n@epilogue\n"


def source_of(body, value):
    arguments = ast.arguments([], [ast.arg(a) for a in ("acc", "rstd", "bias")], None, [], [], None, [])
    returned = ast.Return(ast.Dict([ast.Constant("o")], [value]))
    function = ast.FunctionDef("f", arguments, [*body, returned], [], lineno=1)
    if "type_params" in ast.FunctionDef._fields:
        function.type_params = []
    return HEAD + ast.unparse(ast.fix_missing_locations(ast.Module([function], [])))


def answered(source):
    started = time.monotonic()
    try:
        outcome = read(source, OPERANDS).digest
    except ReadError as error:
        assert error.code and error.message
        outcome = error.code
    assert time.monotonic() - started < 10
    return outcome


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=st.lists(statements, max_size=4), value=expressions)
def test_any_syntax_tree_gives_a_graph_or_a_finding_and_the_same_again(body, value):
    try:
        source = source_of(body, value)
    except (ValueError, RecursionError):  # the tree has no text
        return
    with mutate.watched() as watch:
        answered(source)  # whatever is imported at first use
        watch.on = True
        outcome = answered(source)
        watch.on = False
    assert watch.seen == []
    assert outcome == answered(source)


def _mutated(count, seed, tmp_path):
    folder = Path(verified_kernels.__file__).parent / "hand_written"
    texts = [f.read_text() for f in sorted(folder.glob("*.py")) if f.name != "__init__.py"]
    dice, mark = Random(seed), tmp_path / "mark"
    codes = set()
    for _ in range(count):
        codes.add(answered(mutate.mutated(dice.choice(texts), dice, str(mark))))
    assert not mark.exists()
    assert len(codes) > 8  # it is not all one complaint


def test_mutated_kernels_are_answered_and_none_runs(tmp_path):
    _mutated(120, 11, tmp_path)


@pytest.mark.slow
def test_a_thousand_mutated_kernels_are_answered_and_none_runs(tmp_path):
    _mutated(1000, 12, tmp_path)


def test_the_watch_sees_what_an_execution_does(tmp_path):
    path = tmp_path / "file"
    with mutate.watched() as watch:
        watch.on = True
        exec(f"open({str(path)!r}, 'w').close()")
        watch.on = False
    assert any(event.startswith("open") for event in watch.seen)
