"""Programs for whoever writes their epilogues: the prompt, the command line, and what the tracer says."""

from __future__ import annotations

import json

import pytest
from codasmith.agent.cli import app
from codasmith.agent.models.tracer import TracerError, answer
from codasmith.agent.prompt import system_text, task_text
from codasmith.tasks import load_task, program_tasks
from typer.testing import CliRunner

each = pytest.mark.parametrize("name", program_tasks())


@each
def test_a_programs_prompt_tells_each_product_what_it_takes_and_must_return(name):
    task = load_task(name)
    text = task_text(task)
    assert system_text(task).count("# An example") == 1
    for stage, part in task.parts.items():
        section = text.split(f"## `{stage}`\n")[1].split("\n## ")[0]
        assert f"The multiplication is {part.gemm}; `acc` is [{part.m}, {part.n}]" in section
        taken, returned = section.split("It must return:")
        assert [n for n in part.operands if f"- `{n}` [" not in taken and f"- `{n}` (" not in taken] == []
        assert [n for n in part.outputs if f"- `{n}` [" not in returned] == []
    for step in task.steps:
        assert str(step) in text
        assert step.formula in text


def test_a_programs_prompt_does_not_hold_its_answer():
    text = system_text(load_task("mlp_swiglu")) + task_text(load_task("mlp_swiglu"))
    assert "@epilogue\ndef up" not in text and "row_lse" in text


def test_formulas_are_explained():
    assert "rsqrt(total / d + eps)" in task_text(load_task("rmsnorm_mlp_swiglu"))


def test_the_tracer_says_that_a_program_is_out_of_its_reach():
    with pytest.raises(TracerError, match="mlp_swiglu is a program of 2 products"):
        answer(load_task("mlp_swiglu"))


def test_tasks_list_and_show_know_programs():
    listed = json.loads(CliRunner().invoke(app, ["tasks", "list", "--json"]).stdout)
    assert {r["task"] for r in listed["tasks"] if r["level"] == 4} == set(program_tasks())
    shown = json.loads(CliRunner().invoke(app, ["tasks", "show", "mlp_swiglu", "--json"]).stdout)
    assert shown["stages"] == ["z, o = up(x @ w_up.T)", "y = down(o @ w_down.T)"]
    assert shown["gemm"] == "x @ w_up.T, o @ w_down.T" and shown["between"] == {"o": "[M, F] storage dtype"}
    text = CliRunner().invoke(app, ["tasks", "show", "mlp_swiglu"]).stdout
    assert "product  up: x @ w_up.T: M x 2F, summed over D" in text and "silu(gate) * up" in text
