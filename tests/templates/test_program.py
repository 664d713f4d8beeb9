"""Programs as data: what they compute, and what does not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from codasmith.primitives import read
from codasmith.tasks import load_task
from codasmith.tasks.oracle import oracle
from codasmith.templates.program import Program, Stage, interpret
from codasmith.verified_kernels import hand_written
from pydantic import ValidationError

HAND_WRITTEN = Path(hand_written.__path__[0])


def graph_of(name):
    task = load_task(name)
    return task, read((HAND_WRITTEN / f"{name}.py").read_text(), list(task.operands.values()))


def single(name) -> Program:
    task, graph = graph_of(name)
    return Program.single(
        name,
        tuple(task.tensors),
        task.gemm.a,
        task.gemm.b,
        graph,
        a_transposed=task.gemm.a_transposed,
        b_transposed=task.gemm.b_transposed,
        halves=task.tensors[task.gemm.b].layout == "halves",
    )


@pytest.mark.parametrize(
    "name", ["rmsnorm_swiglu", "residual_partial_rmsnorm", "swiglu_bwd", "linear_alpha_beta_residual"]
)
def test_a_task_is_the_program_of_one_stage(name):
    task = load_task(name)
    inputs = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in task_inputs(task).items()}
    program = Program.model_validate_json(single(name).model_dump_json())
    answer = interpret(program, inputs)
    for output, expected in oracle(task, inputs).items():
        torch.testing.assert_close(answer[output], expected, rtol=1e-9, atol=1e-9)


def task_inputs(task):
    from codasmith.tasks import draw

    return draw(task, task.correctness_workloads()[0])


def test_a_norm_deferred_between_two_products_equals_the_norm_in_its_place():
    """GEMM 1 leaves the sums of squares, a formula makes rstd of them, GEMM 2 scales its accumulator."""
    (_, first), (_, second) = graph_of("residual_partial_rmsnorm"), graph_of("rmsnorm_swiglu")
    program = Program(
        inputs=("y", "w0", "residual", "gamma", "w1"),
        outputs=("h", "o"),
        stages=(
            Stage(
                kind="gemm",
                name="out",
                reads=("y", "w0", "residual", "gamma"),
                writes=("h", "g", "sumsq"),
                epilogue=first,
            ),
            Stage(
                kind="finish",
                name="statistic",
                formula="rsqrt_mean",
                reads=("sumsq",),
                writes=("rstd",),
                constants={"d": 48, "eps": 1e-6},
            ),
            Stage(kind="gemm", name="up", reads=("g", "w1", "rstd"), writes=("o",), epilogue=second, halves=True),
        ),
    )
    generator = torch.Generator().manual_seed(0)
    shapes = {"y": (10, 32), "w0": (48, 32), "residual": (10, 48), "gamma": (48,), "w1": (40, 48)}
    inputs = {k: torch.randn(s, dtype=torch.float64, generator=generator) for k, s in shapes.items()}
    answer = interpret(program, inputs)
    h = inputs["y"] @ inputs["w0"].T + inputs["residual"]
    normed = torch.nn.functional.rms_norm(h, (48,), inputs["gamma"], 1e-6)
    gate, up = (normed @ inputs["w1"].T).chunk(2, -1)
    torch.testing.assert_close(answer["h"], h)
    torch.testing.assert_close(answer["o"], torch.nn.functional.silu(gate) * up)
    assert set(answer) == {"h", "o"}


def test_stages_that_do_not_fit_are_refused_with_their_names():
    _, graph = graph_of("rmsnorm_swiglu")
    stage = Stage(kind="gemm", name="up", reads=("x", "w", "rstd"), writes=("o",), epilogue=graph)
    with pytest.raises(ValidationError, match="reads 'rstd', which is no input"):
        Program(inputs=("x", "w"), outputs=("o",), stages=(stage,))
    with pytest.raises(ValidationError, match="output 'y' is written by no stage"):
        Program(inputs=("x", "w", "rstd"), outputs=("y",), stages=(stage,))
    with pytest.raises(ValidationError, match="writes 'o', which exists already"):
        Program(inputs=("x", "w", "rstd"), outputs=("o",), stages=(stage, stage))
    with pytest.raises(ValidationError, match="formula 'softmax'; known are"):
        Stage(kind="finish", name="f", formula="softmax", reads=("a",), writes=("b",))
    with pytest.raises(ValidationError, match="make them the same"):
        Stage(kind="gemm", name="up", reads=("x", "w", "rstd"), writes=("z",), epilogue=graph)
