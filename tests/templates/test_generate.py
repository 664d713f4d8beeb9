"""What the generator writes for a graph, and what it refuses, without compiling."""

import pytest
from codasmith.gate.frame import frame_of
from codasmith.primitives import read
from codasmith.tasks import Tensor, task
from codasmith.templates.errors import TemplateError
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES

IMPORT = (
    "from codasmith.primitives import col_sum, column_index, epilogue, head_sum, pack, row_index, row_sum, select\n"
    "from codasmith.primitives import unpack, where\n"
)


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("2F K"),
    target=Tensor("M", "i64", low=0, high="F"),
    out={"o": Tensor("M F")},
)
def pairs(x, w, target): ...


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("N K"),
    target=Tensor("M", "i64", low=0, high="N"),
    out={"y": Tensor("M N"), "t": Tensor("M", "f32")},
)
def elements(x, w, target): ...


def made(problem, body, schedule=SCHEDULES[0]):
    operands = list(problem.operands.values())
    names = ", ".join(["acc", *(o.name for o in operands if o.name in body)])
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    graph = read(f"{IMPORT}@epilogue\ndef f({names}):\n{lines}", operands)
    return generate(graph, frame_of(problem, "bf16"), schedule)


def test_column_numbers_both_picked_by_and_compared_are_loaded_once():
    kernel = made(elements, 'return {"y": where(column_index(acc) == target, 0.0, acc), "t": select(acc, target)}')
    assert [a.field for a in kernel.signature.arguments if a.name == "target"] == ["x_target"]
    assert "extra_ops=()" in kernel.source
    assert 'ColVecSelect("y_t", x_target)' in kernel.source


def test_column_numbers_that_are_only_picked_by_stay_out_of_the_function():
    kernel = made(elements, 'return {"y": acc, "t": select(acc, target)}')
    assert "extra_ops=(x_target, )" in kernel.source
    assert "def epilogue(acc):" in kernel.source


def test_coordinates_are_compiled_in_and_take_no_argument_at_launch():
    kernel = made(elements, 'return {"y": acc + row_index(acc), "t": row_sum(acc * column_index(acc))}')
    constants = {a.field: a.value for a in kernel.signature.arguments if a.role == "constant"}
    assert constants == {"i_column_index": 1, "i_row_index": 1}


def test_columns_of_half_the_width_are_counted_in_pairs():
    kernel = made(pairs, 'a, b = unpack(acc)\nreturn {"o": where(column_index(a) == target, a, b)}')
    assert "_0 * Float32(0.5)) == x_target)" in kernel.source


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("2F K", layout="halves"),
    bias=Tensor("2F", layout="halves"),
    flat=Tensor("2F", layout="pairs"),
    out={"o": Tensor("M F")},
)
def gated(x, w, bias, flat): ...


def test_a_row_vector_laid_out_as_halves_is_read_so_that_they_alternate():
    kernel = made(gated, 'a, b = unpack(acc + bias + flat)\nreturn {"o": a * b}')
    assert '"x_bias": HalvesRowVecLoad("x_bias")' in kernel.source
    assert '"x_flat": RowVecLoad("x_flat")' in kernel.source


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("2F K", layout="halves"),
    out={"o": Tensor("M F"), "total": Tensor("2F", "f32", layout="halves")},
)
def summed(x, w): ...


def test_a_column_sum_laid_out_as_halves_is_refused():
    with pytest.raises(TemplateError, match="output total is laid out as halves") as caught:
        made(summed, 'a, b = unpack(acc)\nreturn {"o": a * b, "total": col_sum(acc)}')
    assert caught.value.code == "halves-output"


@pytest.mark.parametrize(("dtype", "sink"), [("f32", "RowVecReduce"), ("bf16", "MaskedRowVecReduce")])
def test_a_column_sum_is_masked_where_a_vector_may_hold_anything_beyond_the_last_row(dtype, sink):
    @task(
        gemm="x @ w.T", level=3, x=Tensor("M K"), w=Tensor("N K"), v=Tensor("M", dtype), out={"c": Tensor("N", "f32")}
    )
    def weighted(x, w, v): ...

    assert f'"y_c": {sink}(' in made(weighted, 'return {"c": col_sum(acc * v)}').source


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("128H K"),
    scale=Tensor("M", "f32"),
    res=Tensor("M 128H"),
    out={"y": Tensor("M 128H")},
)
def headed(x, w, scale, res): ...


def test_what_a_head_sum_is_taken_of_is_computed_before_the_stores():
    kernel = made(headed, 'q = acc * scale\nreturn {"y": q * head_sum(q * q, 128) + res}')
    before = kernel.source.split("def before(acc, x_scale):")[1].split("@gemm_epilogue")[0]
    assert "(acc * x_scale)" in before
    assert "res" not in before
    widths = {a.name: a.value for a in kernel.signature.arguments if a.role == "constant"}
    assert widths == {"head_sum": 128}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('return {"y": acc + head_sum(acc + res, 128)}', "bad-head-sum"),
        ('return {"y": acc + head_sum(head_sum(acc, 128), 128)}', "bad-head-sum"),
        ('a, b = unpack(acc)\nreturn {"y": acc + head_sum(pack(b, a), 128)}', "bad-head-sum"),
        ('return {"y": acc + head_sum(acc, 256)}', "bad-head-dim"),
    ],
)
def test_a_head_sum_of_what_the_first_walk_does_not_have_is_refused(body, code):
    with pytest.raises(TemplateError) as caught:
        made(headed, body)
    assert caught.value.code == code


def test_schedules_whose_tiles_hold_no_whole_heads_are_skipped():
    fitting = []
    for schedule in SCHEDULES:
        try:
            fitting.append(made(headed, 'return {"y": acc * head_sum(acc, 128)}', schedule).signature.schedule.tile_n)
        except TemplateError as error:
            assert error.code == "tile-width"
            assert schedule.tile_n in (192, 160)
    assert fitting == [256, 128, 128, 128]


@task(
    gemm="x @ w.T",
    level=3,
    x=Tensor("M K"),
    w=Tensor("2F K"),
    out={"y": Tensor("M 2F"), "z": Tensor("M 2F", "f32"), "o": Tensor("M F")},
)
def several(x, w): ...


def test_beside_an_unpacked_accumulator_one_wide_output_is_the_main_store_and_others_are_written_by_threads():
    kernel = made(several, 'a, b = unpack(acc)\nreturn {"y": acc, "z": pack(b, a), "o": a * b}')
    assert kernel.signature.d == "y"
    assert 'outs={"y_z": WideStore("y_z"), }' in kernel.source
    assert {a.name: a.role for a in kernel.signature.arguments} == {"z": "store", "o": "store"}
