"""Many outputs against an oracle that comes in pieces: the same verdict as against one that is held whole."""

from dataclasses import asdict

import pytest
import torch
from codasmith.gate.tolerance import judge, judge_runs
from codasmith.tasks import draw, oracle, shipped, unfused

TASKS = ["gelu_bwd_bias_grad", "linear_col_absmax", "linear_accumulate", "linear_lse", "siglip_loss", "mlp_swiglu_bwd"]


def drawn(name, family="normal"):
    made = shipped()[name]
    plain = made.correctness_workloads()[0]
    workload = plain.model_copy(update={"sizes": {**plain.sizes, "M": 72}, "family": family})
    return made, draw(made, workload)


def numbers(errors):
    return {name: value for name, value in asdict(errors).items() if name != "unequal"}


@pytest.mark.parametrize("name", TASKS)
def test_errors_are_the_same_in_pieces_as_whole(name):
    made, inputs = drawn(name, "mixed")
    truth, plain = oracle(made, inputs), unfused(made, inputs)
    right = {n: truth[n].to(plain[n].dtype) for n in plain}
    wrong = {n: v.clone() for n, v in right.items()}
    for value in wrong.values():
        value[-1] += 1 + value[-1].abs()
        value[0] = torch.nan
    runs = {"right": right, "wrong": wrong, "plain": plain}
    found = judge_runs(made, inputs, runs, exact=list(made.outputs)[:1], most=1)
    for key, outputs in runs.items():
        for output, actual in outputs.items():
            exact = output == next(iter(made.outputs))
            expected = judge(actual, truth[output], plain[output], actual.dtype, exact=exact)
            # The oracle itself may differ in the last place, and so may its rounding at a tie.
            assert found[key][output].unequal == expected.unequal
            assert numbers(found[key][output]) == pytest.approx(numbers(expected), rel=1e-12, abs=1e-14), (key, output)
    assert all(e.ok for e in found["right"].values())
    assert all(e.misplaced and not e.ok for e in found["wrong"].values())


def test_only_the_given_outputs_are_compared_and_shapes_must_agree():
    made, inputs = drawn("gelu_bwd_bias_grad")
    dbias = unfused(made, inputs)["dbias"]
    assert list(judge_runs(made, inputs, {"": {"dbias": dbias}}, most=1)[""]) == ["dbias"]
    with pytest.raises(ValueError, match="are not the same"):
        judge_runs(made, inputs, {"": {"dbias": dbias[:-8]}})
    with pytest.raises(ValueError, match=r"pass torch\.float32"):
        judge_runs(made, inputs, {"": {"dbias": dbias.bfloat16()}})
