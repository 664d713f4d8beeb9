"""The first stage: what is no answer to the task, with a line and a remedy."""

from importlib.resources import files

import pytest
from codasmith.gate.interpret import interpret_stage
from codasmith.gate.read import LONGEST, read_stage
from codasmith.tasks import Tensor, catalogue, task

TASKS = catalogue()
HAND_WRITTEN = {n: (files("codasmith.verified_kernels.hand_written") / f"{n}.py").read_text() for n in TASKS}


@task(
    gemm="x @ w.T",
    x=Tensor("M K"),
    w=Tensor("2F K", layout="pairs"),
    rstd=Tensor("M", "f32"),
    dz=Tensor("M 2F", "f32"),
    target=Tensor("M", "i64", low=0, high="F"),
    out={
        "z": Tensor("M 2F"),
        "o": Tensor("M F"),
        "dz": Tensor("M 2F", "f32"),
        "s": Tensor("M", "f32"),
        "c": Tensor("2F", "f32"),
    },
    accumulates="dz",
)
def everything(x, w, rstd, dz, target):
    """Outputs of every kind."""
    z = (x @ w.T) * rstd[:, None]
    return {"z": z, "o": z[:, ::2] * z[:, 1::2], "dz": dz + z, "s": z.sum(1), "c": z.sum(0)}


def answer(body, parameters="acc, rstd", names="col_sum, pack, row_sum, select, silu, unpack"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"from codasmith.primitives import epilogue, {names}\n\n\n@epilogue\ndef f({parameters}):\n{lines}"


GOOD = {"z": "z", "o": "a * b", "dz": "z", "s": "row_sum(z)", "c": "col_sum(z)"}


def returning(parameters="acc, rstd", **changes):
    outputs = {k: v for k, v in {**GOOD, **changes}.items() if v}
    returned = ", ".join(f'"{k}": {v}' for k, v in outputs.items())
    return answer(f"z = acc * rstd\na, b = unpack(z)\nreturn {{{returned}}}", parameters)


def finding(source, tier="closed", of=everything):
    result, graph = read_stage(of, source, tier)
    assert result.stage == "read" and result.outcome == "failed" and graph is None and result.data == {}
    return result.finding


@pytest.mark.parametrize("name", TASKS)
def test_hand_written_epilogues_pass_and_are_known(name):
    result, graph = read_stage(TASKS[name], HAND_WRITTEN[name], "closed")
    assert result.outcome == "passed", result.finding
    assert result.data == {
        "digest": graph.digest,
        "operands": [o.name for o in graph.used_operands],
        "same_as": name,
    }
    assert f"hand-written {name}" in result.note
    judged = interpret_stage(TASKS[name], graph)
    assert judged.outcome == "passed", judged.finding
    assert set(judged.data["max_relative"]) == set(TASKS[name].outputs)
    # Beyond 20 torch takes softplus for the identity, which is 2e-11 off.
    assert max(judged.data["max_relative"].values()) < 1e-10


def test_a_good_answer_of_every_kind_passes():
    result, graph = read_stage(everything, returning(), "closed")
    assert result.outcome == "passed", result.finding
    assert result.data["same_as"] is None and result.data["operands"] == ["rstd"]
    assert set(graph.outputs) == set(GOOD) and interpret_stage(everything, graph).outcome == "passed"


def test_the_same_expression_is_known_however_it_is_written():
    source = """
from codasmith.primitives import epilogue, gelu as activation

TWO = 2.0


def shifted(value, by):
    return value + by


@epilogue
def renamed(acc, bias):
    total = shifted(acc, bias)
    return {"y": activation(total)}
"""
    assert read_stage(TASKS["linear_bias_gelu"], source, "closed")[0].data["same_as"] == "linear_bias_gelu"


REFUSED = {
    "a wrong key": (returning(o="", out="a * b"), "unknown-output", "'out'", "'o'"),
    "an extra key": (returning(extra="z"), "unknown-output", "'extra'", "z, o, dz, s, c"),
    "a missing key": (returning(s=""), "missing-output", "'s'", "keys z, o, dz, s, c"),
    "too wide": (returning(o="z"), "wrong-shape", "[M x N]", "unpack"),
    "too narrow": (returning(z="a"), "wrong-shape", "[M x N/2]", "pack"),
    "not reduced": (returning(s="z"), "wrong-shape", "[M]", "row_sum"),
    "not reduced over rows": (returning(c="z"), "wrong-shape", "[2F]", "col_sum"),
    "reduced the wrong way": (returning(s="col_sum(z)"), "wrong-shape", "reduced over rows", "row_sum instead of col"),
    "reduced a narrow value": (returning(c="col_sum(a)"), "wrong-shape", "[1 x N/2]", "N columns wide"),
    "reduced without need": (returning(o="row_sum(a)"), "wrong-shape", "reduced over columns", "values themselves"),
    "an operand of the product": (returning("acc, rstd, w"), "unknown-operand", "w", "acc already holds"),
    "an accumulated output": (returning("acc, rstd, dz"), "unknown-operand", "dz", "change of dz"),
    "an unknown parameter": (returning("acc, rstd, bias"), "unknown-operand", "bias", "rstd, target"),
    "index used as a value": (returning("acc, rstd, target", z="z * target"), "bad-index", "column numbers", "select"),
    "a vector returned": (returning(z="rstd"), "bad-output", "z", "fills the tile"),
    "control flow": (answer("if acc > 0:\n    acc = 0\nreturn {}"), "control-flow", "if", "where"),
    "no Python": ("def f(:", "syntax", "not Python", "one file"),
    "no epilogue": ("X = 1.0\n", "no-epilogue", "@epilogue", "@epilogue"),
    "an import": ("import os\n", "import", "os", "codasmith.primitives"),
    "an unknown name": (answer("return {'z': swish(acc)}"), "unknown-name", "swish", "silu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_thing_and_the_remedy(case):
    source, code, named, remedy = REFUSED[case]
    found = finding(source)
    assert found.code == code and named in found.message and remedy in found.remedy, found


def test_findings_carry_the_line_and_the_output():
    found = finding(returning(o="z"))
    assert (found.line, found.output) == (6, "o")
    assert finding("import os\n").line == 1


def test_an_answer_without_the_accumulator_is_refused():
    plain = task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), r=Tensor("M N"), out={"y": Tensor("M N")})(linear)
    found = finding(answer('return {"y": silu(r)}', "acc, r"), of=plain)
    assert found.code == "no-accumulator" and "acc" in found.remedy


def linear(x, w, r):
    return {"y": x @ w.T + r}


def test_a_reduction_declared_in_the_storage_dtype_is_the_tasks_fault():
    short = task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"s": Tensor("M")})(total)
    found = finding(answer('return {"s": row_sum(acc)}', "acc"), of=short)
    assert found.code == "reduced-dtype" and 's=Tensor("M", "f32")' in found.remedy


def total(x, w):
    return {"s": (x @ w.T).sum(1)}


# --- the open tier ---------------------------------------------------------------------------------

OPEN = """
import functools
import math
import operator
from typing import Any

import cutlass
import cutlass.cute as cute
import quack.activation
from cutlass import Float32
from quack import epilogue as library
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import EpiOp, RowVecLoad

MAIN = "y"


class Mine(EpiOp):
    def __init__(self, name):
        super().__init__(name)


@gemm_epilogue(ops={"bias": RowVecLoad("bias")})
def epilogue(acc, bias):
    return {"D": acc + bias}
"""


def test_an_open_candidate_is_parsed_and_has_no_graph():
    result, graph = read_stage(everything, OPEN, "cutedsl")
    assert result.outcome == "passed" and graph is None and "sandbox" in result.note
    made = "from quack.epilogue import gemm_epilogue\n\nepilogue = gemm_epilogue()(lambda acc: {'D': acc})\n"
    assert read_stage(everything, made, "cutedsl")[0].outcome == "passed"


def test_the_candidate_is_not_executed(tmp_path):
    mark = tmp_path / "ran"
    source = f"{OPEN}\nraise SystemExit(cutlass.write({str(mark)!r}))\n"
    assert read_stage(everything, source, "cutedsl")[0].outcome == "passed"
    assert not mark.exists()


OPEN_REFUSED = {
    "import os": ("import", "os"),
    "import torch": ("import", "torch"),
    "import cutlass.torch": ("import", "cutlass.torch"),
    "import math, subprocess": ("import", "subprocess"),
    "from os import path": ("import", "os"),
    "from quack import cache": ("import", "quack"),
    "from quack.gemm_runtime import host": ("import", "quack.gemm_runtime"),
    "from . import secrets": ("import", "."),
    "def helper():\n    import sys": ("import", "sys"),
    "__import__('os')": ("forbidden-name", "__import__"),
    "eval('1')": ("forbidden-name", "eval"),
    "f = open": ("forbidden-name", "open"),
    "x = math.__dict__": ("forbidden-name", "__dict__"),
    "x = ().__class__.__base__": ("forbidden-name", "__base__"),
    "def broken(:": ("syntax", "Python"),
    "x = 1\0": ("syntax", ""),  # Python's own words for it differ between versions
}


@pytest.mark.parametrize("line", OPEN_REFUSED)
def test_open_candidates_are_refused_for_what_they_import_and_reach_for(line):
    code, named = OPEN_REFUSED[line]
    found = finding(f"{OPEN}{line}\n", "cutedsl")
    assert found.code == code and named in found.message and found.remedy, found
    if code != "syntax":
        assert found.line == len(OPEN.splitlines()) + line.count("\n") + 1


def test_an_open_candidate_must_define_epilogue_at_its_top_level():
    inner = "def outer():\n    def epilogue(acc):\n        return {}\n"
    assert finding(inner, "cutedsl").code == "no-epilogue"


def test_an_open_candidate_in_another_encoding_is_refused_for_another_text_would_be_compiled():
    found = finding(f"# coding: utf-7\n{OPEN}", "cutedsl")
    assert found.code == "encoding" and "utf-7" in found.message and "UTF-8" in found.remedy


def test_no_finding_is_longer_than_a_page():
    for source in ("ret" + "u" * 60_000, f'return {{"{"y" * 60_000}": acc}}'):
        found = finding(f"from codasmith.primitives import epilogue\n@epilogue\ndef f(acc):\n    {source}\n")
        assert found.remedy and len(found.message) <= LONGEST


def test_long_sources_are_refused_in_both_tiers():
    for tier in ("closed", "cutedsl"):
        assert finding("#" * 70_000, tier).code == "too-large"
