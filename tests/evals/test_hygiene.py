"""What every task must hold, by the gate's own numerics rule: the public ones, and a sample of generated ones."""

import random

import pytest
import torch
from codasmith.evals.compose import DIFFICULTIES, compose
from codasmith.evals.generate import drafts, public_signatures
from codasmith.evals.hand_written import source_for
from codasmith.evals.hygiene import Case, kernel_answer, mutants, problems, signature
from codasmith.primitives import Operand, read
from codasmith.tasks import Tensor, catalogue, program_tasks, task

TASKS = catalogue()


PROGRAMS = program_tasks()


def graph_of(name):
    return read(source_for(name), list(TASKS[name].operands.values()))


@pytest.mark.parametrize("name", TASKS)
def test_public_task_tells_right_from_wrong(name):
    assert problems(TASKS[name], graph_of(name)) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_public_program_tells_right_from_wrong(name):
    assert problems(PROGRAMS[name], PROGRAMS[name].read(source_for(name))) == []


def test_generated_tasks_tell_right_from_wrong_and_are_what_they_were_made_from():
    made = list(drafts(11, 8))
    assert len({signature(m.graph) for m in made} | public_signatures()) == 8 + len(public_signatures())
    for m in made:
        assert problems(m.task, m.graph) == []
        assert set(m.task.operands) == {o.name for o in m.graph.used_operands}


PRE = "from codasmith.primitives import epilogue, relu, clamp, tanh\n@epilogue\n"


def found(reference, source, **tensors):
    made = task(
        gemm="x @ w.T",
        name="made",
        **{"x": Tensor("M K"), "w": Tensor("N K", scale="K**-0.5"), **tensors},
        out={"y": Tensor("M N")},
    )(reference)
    return problems(made, read(PRE + source, list(made.operands.values())))


def test_a_clamp_that_never_acts_is_found():
    def reference(x, w):
        return {"y": (x @ w.T).clamp(-4e4, 4e4)}

    assert found(reference, 'def made(acc):\n    return {"y": clamp(acc, -4e4, 4e4)}') == [
        "the bare product pass for y",
        "the answer with clamp left out passes",
    ]


def test_an_output_that_is_nearly_always_zero_is_found():
    def reference(x, w):
        return {"y": torch.relu(x @ w.T - 2.5)}

    assert "three of four elements of y are the same" in found(
        reference, 'def made(acc):\n    return {"y": relu(acc - 2.5)}'
    )


def test_an_operand_too_small_to_matter_is_found():
    def reference(x, w, bias):
        return {"y": x @ w.T + bias * 1e-4}

    source = 'def made(acc, bias):\n    return {"y": acc + bias * 1e-4}'
    assert "bias does not matter" in found(reference, source, bias=Tensor("N"))


def test_an_explosive_reference_is_found():
    def reference(x, w):
        return {"y": (x @ w.T) ** 8}

    source = 'def made(acc):\n    s = acc * acc\n    f = s * s\n    return {"y": f * f}'
    assert any("not finite in the family" in p for p in found(reference, source))


def test_a_trivial_answer_that_passes_is_found():
    def reference(x, w, residual):
        return {"y": residual + 1e-4 * (x @ w.T)}

    source = 'def made(acc, residual):\n    return {"y": residual + 1e-4 * acc}'
    assert "a copy of residual pass for y" in found(reference, source, residual=Tensor("M N"))


def test_an_honest_kernel_is_within_the_tolerance_and_a_mutant_is_not():
    name = "rmsnorm_swiglu"
    case = Case.of(TASKS[name], TASKS[name].correctness_workloads()[0])
    assert case.accepts_all(kernel_answer(TASKS[name], graph_of(name), case.inputs))
    wrong = dict(mutants(graph_of(name)))
    assert "silu left out" in wrong
    assert not case.accepts_all(kernel_answer(TASKS[name], wrong["silu left out"], case.inputs))


def test_signature_sees_through_names_constants_and_order_but_not_through_operations():
    def sign(body, *names):
        operands = [Operand(name=n, rows=False, cols=2) for n in names]
        parameters = ", ".join(["acc", *names])
        return signature(read(f'{PRE}def f({parameters}):\n    return {{"y": {body}}}', operands))

    assert sign("relu(acc * 2.0 + b)", "b") == sign("relu(c + 3.0 * acc)", "c")
    assert sign("relu(acc + b)", "b") != sign("tanh(acc + b)", "b")
    assert sign("acc - b", "b") != sign("b - acc", "b")


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_drafts_repeat_by_the_generators_state_and_grow_with_difficulty(difficulty):
    one, two = (compose(random.Random(3), difficulty) for _ in range(2))
    assert one == two
    made = [compose(random.Random(i), difficulty) for i in range(30)]
    levels = {d.level for d in made}
    assert max(levels) == min(difficulty, 3)
    assert {d.mode for d in made} == {1: {"element"}, 4: {"element", "pair", "packed"}}.get(
        difficulty, {"element", "pair"}
    )
