"""What the generator writes for a graph, and what it refuses, without compiling."""

from codasmith.gate.frame import frame_of
from codasmith.primitives import read
from codasmith.tasks import Tensor, task
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES

IMPORT = "from codasmith.primitives import column_index, epilogue, pack, row_index, row_sum, select, unpack, where\n"


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
