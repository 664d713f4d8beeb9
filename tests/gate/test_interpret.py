"""The second stage: wrong formulas, named by output and pattern, before anything is compiled."""

from functools import cache
from importlib.resources import files

import pytest
import torch
from codasmith.gate.far import FAR, RANGES, down, far_down, far_workloads
from codasmith.gate.interpret import _KEPT, _cases, interpret_stage
from codasmith.gate.read import read_stage
from codasmith.primitives import read
from codasmith.primitives.graph import Builder
from codasmith.primitives.interpret import evaluate
from codasmith.tasks import TaskError, Tensor, catalogue, task

TASKS = catalogue()


@cache
def graph(name, body, parameters):
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    names = "abs, clamp, epilogue, exp, gelu, gelu_tanh, pack, relu, row_lse, row_max, row_sum, select, sigmoid, silu"
    source = (
        f"from codasmith.primitives import {names}, tanh, unpack, where\n\n\n@epilogue\ndef f({parameters}):\n{lines}"
    )
    return read(source, list(TASKS[name].operands.values()))


def judged(name, body, parameters):
    return interpret_stage(TASKS[name], graph(name, body, parameters))


def finding(name, body, parameters):
    result = judged(name, body, parameters)
    assert result.stage == "interpret" and result.outcome == "failed" and result.data == {}, body
    return result.finding


WRONG = {
    "the bare accumulator": ("linear_bias_gelu", 'return {"y": acc + 0.0 * bias}', "bare accumulator", "to acc"),
    "an operand without effect": (
        "linear_bias_gelu",
        'return {"y": gelu(acc + bias * 0.0)}',
        "without bias",
        "bias has no",
    ),
    "an operand added to nothing": (
        "linear_bias_gelu",
        'return {"y": gelu(acc - bias)}',
        "bias negated",
        "Change the sign with which bias",
    ),
    "a factor": ("linear_bias_gelu", 'return {"y": 2.0 * gelu(acc + bias)}', "constant factor of 2;", "Divide y by 2"),
    "a sign": ("linear_bias_gelu", 'return {"y": -gelu(acc + bias)}', "sign is flipped", "Change the sign of y"),
    "an offset": (
        "linear_bias_gelu",
        'return {"y": gelu(acc + bias) + 0.5}',
        "constant offset of 0.5",
        "Subtract 0.5 from y",
    ),
    "an approximation": (
        "linear_bias_gelu",
        'return {"y": gelu_tanh(acc + bias)}',
        "close but not equal",
        "approximation",
    ),
    "lanes exchanged": (
        "rmsnorm_swiglu",
        'a, b = unpack(acc * rstd); return {"o": silu(b) * a}',
        "even and odd columns of acc exchanged",
        "Exchange the two names",
    ),
    "a scale left at one": (
        "rmsnorm_swiglu",
        'a, b = unpack(acc + 0.0 * rstd); return {"o": silu(a) * b}',
        "without rstd (as if it were 1)",
        "rstd has no effect",
    ),
    "another activation": ("linear_bias_gelu", 'return {"y": silu(acc + bias)}', "differs from the reference", "term"),
    "all zero": ("linear_bias_gelu", 'return {"y": 0.0 * (acc + bias)}', "all zero", "does not depend on acc"),
}
PARAMETERS = {"linear_bias_gelu": "acc, bias", "rmsnorm_swiglu": "acc, rstd"}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_named(mistake):
    name, body, message, remedy = WRONG[mistake]
    found = finding(name, body, PARAMETERS[name])
    assert found.code == "wrong-values" and message in found.message and remedy in found.remedy, found
    assert found.output in TASKS[name].outputs and found.line == 6 + body.count("; ")
    assert found.details["wrong"] > 0 and found.details["family"] == "normal"


def test_the_worst_element_is_shown_with_both_values():
    found = finding("linear_bias_gelu", 'return {"y": 2.0 * gelu(acc + bias)}', "acc, bias")
    worst = found.details["worst"]
    assert worst["value"] == pytest.approx(2 * worst["expected"])
    row, column = worst["index"]
    assert f"y[{row}, {column}] is {worst['value']:.6g} and should be {worst['expected']:.6g}." in found.message


def test_the_wrong_output_is_named_among_right_ones():
    body = 'return {"logits": acc, "target_logit": select(acc, target), "lse": row_max(acc)}'
    found = finding("linear_cross_entropy_partial", body, "acc, target")
    assert found.output == "lse" and "lse[" in found.message


def test_an_operand_that_is_never_used_is_named():
    found = finding("linear_bias_gelu", 'return {"y": gelu(acc)}', "acc, bias")
    assert found.code == "ignored-operand" and "never uses bias" in found.message and found.output == "y"


def test_an_operand_without_influence_may_be_left_out():
    @task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), b=Tensor("N"), out={"y": Tensor("M N")})
    def idle(x, w, b):
        return {"y": x @ w.T + 0 * b}

    source = 'from codasmith.primitives import epilogue\n\n\n@epilogue\ndef f(acc):\n    return {"y": acc}\n'
    result = interpret_stage(idle, read(source, list(idle.operands.values())))
    assert result.outcome == "passed", result.finding


def test_an_operand_must_be_followed_beyond_the_workloads():
    """A scalar known from the workloads by heart."""
    name = "linear_softcap"
    caps = [case.inputs["cap"] for case in _cases(TASKS[name])]
    known = f"where(cap == {caps[0]!r}, {caps[0]!r}, where(cap == {caps[1]!r}, {caps[1]!r}, {caps[2]!r}))"
    found = finding(name, f'c = {known}; return {{"y": c * tanh(acc / c)}}', "acc, cap")
    assert "differs from the reference when cap changes" in found.message


def test_the_change_is_returned_of_an_accumulated_output():
    assert judged("linear_accumulate", 'return {"dw": acc}', "acc").outcome == "passed"
    found = finding("linear_accumulate", 'return {"dw": acc * 2.0}', "acc")
    assert found.output == "dw" and "change of dw only" in found.remedy


@pytest.mark.parametrize(
    ("body", "accurate"),
    [
        ('return {"y": 1.0 / (1.0 + exp(-acc))}', True),
        ('return {"y": 0.5 + 0.5 * tanh(0.5 * acc)}', True),
        ('return {"y": 1.0 / (1.0 + exp(acc * -0.99999998))}', True),
        ('return {"y": clamp(0.2 * acc + 0.5, 0.0, 1.0)}', False),
        ('return {"y": 1.0 / (1.0 + exp(acc * -0.9999))}', False),
    ],
)
def test_rearrangements_and_float32_constants_pass_and_approximations_do_not(body, accurate):
    assert (judged("linear_sigmoid", body, "acc").outcome == "passed") is accurate


def test_what_agrees_only_to_float32_is_noted():
    exact = judged("linear_sigmoid", 'return {"y": sigmoid(acc)}', "acc")
    rounded = judged("linear_sigmoid", 'return {"y": 1.0 / (1.0 + exp(acc * -0.99999998))}', "acc")
    assert "rounded" not in exact.note and exact.data["max_relative"]["y"] < 1e-12
    assert "rounded constants" in rounded.note and 1e-9 < rounded.data["max_relative"]["y"] < 1e-6


def test_nan_where_the_reference_has_none_is_found():
    found = finding("linear_bias_gelu", 'return {"y": gelu(acc + bias) * (acc / (acc - acc) * 0.0 + 1.0)}', "acc, bias")
    assert "NaN" in found.message


def test_a_broken_reference_is_not_the_candidates_fault():
    @task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})
    def broken(x, w):
        raise RuntimeError("no such thing")

    source = 'from codasmith.primitives import epilogue\n\n\n@epilogue\ndef f(acc):\n    return {"y": acc}\n'
    with pytest.raises(TaskError, match="no such thing"):
        interpret_stage(broken, read(source, []))


def test_a_second_candidate_is_judged_without_the_reference_running_again():
    runs = []

    @task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})
    def counted(x, w):
        runs.append(1)
        return {"y": x @ w.T}

    source = 'from codasmith.primitives import epilogue\n\n\n@epilogue\ndef f(acc):\n    return {"y": acc}\n'
    for _ in range(3):
        assert interpret_stage(counted, read(source, [])).outcome == "passed"
    assert len(runs) == 3 and len(_KEPT) <= 64


# --- far beyond the sizes that are timed ----------------------------------------------------------------


def test_only_an_epilogue_that_knows_where_it_stands_is_followed_to_a_million_rows_and_columns():
    task, builder = TASKS["rmsnorm_scale"], Builder()
    plain = builder.finish({"y": builder.acc()})
    assert far_workloads(task, [plain]) == []
    placed = builder.finish({"y": builder.add("mul", (builder.acc(), builder.add("row_index", (builder.acc(),))))})
    tall, wide = far_workloads(task, [plain, placed])
    assert tall.sizes[task.m.symbol] == 2**20 == wide.sizes[task.n.symbol]
    assert tall.sizes[task.n.symbol] == 8 and wide.sizes[task.m.symbol] == 1


@pytest.mark.parametrize("place", ["row_index", "column_index"])
def test_being_wrong_beyond_the_largest_timed_size_is_found_by_place(place):
    task = TASKS["rmsnorm_scale"]
    largest = max(max(w.sizes.values()) for w in task.workloads())
    source = (
        f"from codasmith.primitives import epilogue, {place}, where\n\n\n@epilogue\ndef f(acc, rstd):\n"
        f'    return {{"y": where({place}(acc) < {2.0 * largest}, acc, -acc) * rstd}}\n'
    )
    finding = interpret_stage(task, read_stage(task, source, "closed")[1]).finding
    assert finding.code == "wrong-values" and finding.output == "y"


@pytest.mark.parametrize("name", ["linear_dlogits", "siglip_loss"])
def test_honest_epilogues_with_coordinates_hold_far_out(name):
    source = (files("codasmith.verified_kernels.hand_written") / f"{name}.py").read_text()
    graph = read_stage(TASKS[name], source, "closed")[1]
    assert far_workloads(TASKS[name], [graph])
    assert interpret_stage(TASKS[name], graph).outcome == "passed"


def test_being_wrong_where_both_row_and_column_are_late_is_found_where_the_reference_knows_no_row():
    task = TASKS["rmsnorm_scale"]
    source = (
        "from codasmith.primitives import column_index, epilogue, row_index, where\n\n\n@epilogue\ndef f(acc, rstd):\n"
        "    late = (row_index(acc) > 20000.0) & (column_index(acc) > 20000.0)\n"
        '    return {"y": where(late, 0.0, acc * rstd)}\n'
    )
    graph = read_stage(task, source, "closed")[1]
    assert all(
        float(evaluate(moved, torch.ones(1, 30000), {"rstd": torch.ones(1)})["y"][0, -1]) == (rows <= 20000)
        for rows, moved in zip((4096, 20000, 20001), far_down(task, graph, (4096, 20000, 20001)), strict=True)
    )
    finding = interpret_stage(task, graph).finding
    assert finding.code == "wrong-values" and "when its row changes" in finding.message


def test_a_reference_that_knows_its_row_is_not_asked_for_another():
    source = (files("codasmith.verified_kernels.hand_written") / "siglip_loss.py").read_text()
    graph = read_stage(TASKS["siglip_loss"], source, "closed")[1]
    assert any(node.op == "row_index" for node in graph.nodes) and not far_down(TASKS["siglip_loss"], graph, [1])


def test_rows_further_down_are_drawn_from_each_fourfold_range_with_their_neighbours():
    for _ in range(20):
        first, second = down()[::2], down()[1::2]
        assert all(4**n <= number < 4 ** (n + 1) for n, number in enumerate(first)) and 4**RANGES == FAR
        assert all(4**n < number <= 4 ** (n + 1) for n, number in enumerate(second))
    assert down() != down()


FLOAT32 = {
    "late rows, every other": "r = row_index(acc); late = (r + 16677216.0) - 16677216.0 != r",
    "late rows and columns, every other": (
        "r = row_index(acc); c = column_index(acc); late = ((r + 16677216.0) - 16677216.0 != r) "
        "& ((c + 16757216.0) - 16757216.0 != c)"
    ),
}


@pytest.mark.parametrize("condition", FLOAT32.values(), ids=FLOAT32.keys())
def test_being_wrong_far_out_in_float32_alone_is_found(condition):
    task = TASKS["rmsnorm_scale"]
    source = (
        "from codasmith.primitives import column_index, epilogue, row_index, where\n\n\n@epilogue\ndef f(acc, rstd):\n"
        + "".join(f"    {line}\n" for line in condition.split("; "))
        + '    return {"y": where(late, 0.0, acc * rstd)}\n'
    )
    graph = read_stage(task, source, "closed")[1]
    for dtype, wrong in ((torch.float64, False), (torch.float32, True)):
        (moved,) = far_down(task, graph, [100_001])
        answer = evaluate(moved, torch.ones(1, 20_004, dtype=dtype), {"rstd": torch.ones(1, dtype=dtype)})["y"]
        assert bool((answer == 0).any()) == wrong
    finding = interpret_stage(task, graph).finding
    assert finding.code == "wrong-values" and "and not in float32" in finding.message and "2^24" in finding.remedy


def test_being_wrong_in_early_rows_where_columns_are_late_is_found():
    task = TASKS["rmsnorm_scale"]
    source = (
        "from codasmith.primitives import column_index, epilogue, row_index, where\n\n\n@epilogue\ndef f(acc, rstd):\n"
        "    r = row_index(acc)\n    late = (r > 0.5) & (r < 4000.0) & (column_index(acc) > 20000.0)\n"
        '    return {"y": where(late, 0.0, acc * rstd)}\n'
    )
    finding = interpret_stage(task, read_stage(task, source, "closed")[1]).finding
    assert finding.code == "wrong-values" and "when its row changes" in finding.message


def test_a_task_of_so_many_rows_and_no_others_is_not_looked_at_further_down():
    @task(
        gemm="x @ w.T",
        x=Tensor("128 K"),
        w=Tensor("N K"),
        target=Tensor("128", "i64", low=0, high="N"),
        out={"y": Tensor("128 N")},
    )
    def fixed_rows(x, w, target):
        """y = x @ w.T minus one-hot."""
        return {"y": x @ w.T - torch.nn.functional.one_hot(target, len(w))}

    for one, outcome in (("1.0", "passed"), ("2.0", "failed")):
        source = (
            "from codasmith.primitives import column_index, epilogue, where\n\n\n@epilogue\ndef f(acc, target):\n"
            f'    return {{"y": acc - where(column_index(acc) == target, {one}, 0.0)}}\n'
        )
        assert interpret_stage(fixed_rows, read_stage(fixed_rows, source, "closed")[1]).outcome == outcome


def test_a_long_epilogue_that_knows_its_place_is_looked_at_on_fewer_elements():
    task, builder = TASKS["rmsnorm_scale"], Builder()
    value = builder.acc()
    for number in range(600):
        value = builder.add("mul", (value, builder.add("row_index", (value,))) if number == 0 else (value, value))
    graph = builder.finish({"y": value})
    for workload in far_workloads(task, [graph]):
        rows, columns = workload.sizes[task.m.symbol], workload.sizes[task.n.symbol]
        asked = 1 if rows > 1 else 1 + 2 * RANGES
        assert rows * columns * len(graph.nodes) * asked <= 2**29 and max(rows, columns) >= 2**15
