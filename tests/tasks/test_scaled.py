"""NAME_fp8: what it computes, what an epilogue for it must be, and where there is none."""

from __future__ import annotations

import json
import textwrap

import pytest
import torch
from codasmith import gate
from codasmith.agent.cli import app
from codasmith.evals.hand_written import source_for
from codasmith.gate.interpret import interpret_stage
from codasmith.gate.read import read_stage
from codasmith.tasks import TaskError, catalogue, draw, load_task, oracle, scaled, shipped_task, text_of, unfused
from codasmith.tasks.scaled import scales, why_not
from codasmith.verified_kernels import FallbackWarning, UnknownKernel, list_entries, load
from codasmith.verified_kernels.load import find
from typer.testing import CliRunner

WITH = [name for name, task in catalogue().items() if not why_not(task)]
OWN = '''"""Two tasks with a helper, one called otherwise than its function."""

from codasmith.tasks import Tensor, task

TWICE = 2.0


def doubled(value):
    return value * TWICE


@task(gemm="a @ b.T", name="called", a=Tensor("M K"), b=Tensor("N K", scale="K**-0.5"), out={"y": Tensor("M N")})
def first(a, b):
    """y = 2 a @ b.T."""
    return {"y": doubled(a @ b.T)}


@task(gemm="a @ b.T", a=Tensor("M K"), b=Tensor("N K"), c=Tensor("N"), out={"y": Tensor("M N")})
def second(a, b, c):
    both = a @ b.T
    return {"y": both + a @ b.T + c}
'''


def test_every_forward_task_takes_fp8_operands_itself_or_has_one_that_does():
    without = {name for name, task in catalogue().items() if why_not(task) and not task.fp8}
    assert len(WITH) > 40
    assert all(catalogue()[name].gemm.a_transposed or not catalogue()[name].gemm.b_transposed for name in without)


@pytest.mark.parametrize("name", WITH)
def test_it_is_the_task_on_operands_times_their_scales(name):
    task, made = catalogue()[name], load_task(f"{name}_fp8")
    assert made is load_task(f"{name}_fp8") is shipped_task(f"{name}_fp8") and made.digest != task.digest
    inputs = draw(made, made.correctness_workloads("fp8")[1])
    given = {n: v for n, v in inputs.items() if n not in scales(task)}
    for operand, scale in zip((task.gemm.a, task.gemm.b), scales(task), strict=True):
        assert inputs[operand].dtype == torch.float8_e4m3fn and inputs[scale].dtype == torch.float32
        given[operand] = inputs[operand].double() * inputs[scale].double()[:, None]
    expected, plain = oracle(task, given), unfused(made, inputs)
    for output, value in oracle(made, inputs).items():
        torch.testing.assert_close(value, expected[output], rtol=1e-9, atol=1e-9)
        assert plain[output].isfinite().all()


@pytest.mark.parametrize("name", WITH)
def test_the_epilogue_by_hand_is_made_one_for_it(name):
    made = load_task(f"{name}_fp8")
    read, graph = read_stage(made, source_for(made.name), "closed")
    assert read.outcome == "passed", read.finding
    assert interpret_stage(made, graph).outcome == "passed"


def test_it_is_a_file_of_its_own_where_it_is_kept(tmp_path):
    made = load_task("linear_swiglu_fp8")
    kept = tmp_path / "task.py"
    kept.write_text(text_of(made))
    again = load_task(f"{kept}:linear_swiglu_fp8")
    assert again.digest == made.digest and again.fp8 == {"x": "x_scale", "w": "w_scale"}
    assert text_of(again) == kept.read_text() and again.path == kept
    assert "gate and up are the halves of x @ w.T" in again.doc and "x_scale and w_scale, a scale" in again.doc


def test_a_users_own_task_has_one_too(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.replace('its function."""', r'its \"function\""""'))
    made = load_task(f"{file}:called_fp8")
    assert made.name == "called_fp8" and made.path == file and tuple(made.tensors) == ("a", "b", "a_scale", "b_scale")
    inputs = draw(made, made.correctness_workloads("fp8")[0])
    value = oracle(made, inputs)["y"]
    product = inputs["a"].double() @ inputs["b"].double().T
    torch.testing.assert_close(value, 2 * product * inputs["a_scale"][:, None].double() * inputs["b_scale"].double())
    with pytest.raises(TaskError, match=r"'second_fp8'.*says a @ b\.T 2 times"):
        load_task(f"{file}:second_fp8")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rmsnorm_swiglu_fp8", "has inputs for the scales of fp8 operands; ask for it with fp8 as the storage dtype"),
        ("gelu_bwd_fp8", "contiguous along K, and those of gelu_bwd, dy @ w, are not both"),
        ("mlp_swiglu_fp8", "mlp_swiglu is a program"),
        ("linear_bias_fp8_fp8", "linear_bias_fp8 has inputs for the scales"),
        ("nothing_fp8", "there is no task 'nothing_fp8' in the catalogue"),
    ],
)
def test_where_there_is_none_a_sentence_says_why(name, said):
    with pytest.raises(TaskError, match=said):
        load_task(name)
    if name != "nothing_fp8":  # load, and what the command line asks of kernels, said only that nothing is called so
        for ask in (load, find, list_entries):
            with pytest.raises(UnknownKernel, match=rf"^nothing is called '{name}': .*{said}"):
                ask(name)


def test_a_users_own_task_may_have_a_name_that_no_task_of_the_project_can_have(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.replace('"called"', '"rmsnorm_swiglu_fp8"'))
    task = load_task(f"{file}:rmsnorm_swiglu_fp8")
    assert shipped_task(task.name) is None
    with pytest.warns(FallbackWarning, match="no admitted kernel answers rmsnorm_swiglu_fp8"):
        operator = load(task)
    assert operator.name == f"{file}:rmsnorm_swiglu_fp8"
    with pytest.raises(UnknownKernel, match="nothing is called 'rmsnorm_swiglu_fp8'"):
        load("rmsnorm_swiglu_fp8")


def test_a_task_whose_tensor_has_the_name_of_a_scale_has_none(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        OWN.replace("c=Tensor", "a_scale=Tensor").replace("(a, b, c)", "(a, b, a_scale)").replace("+ c", "")
    )
    with pytest.raises(TaskError, match="second has a tensor called a_scale"):
        scaled(load_task(f"{file}:second"))


ODD = {
    "called": OWN.replace("@task(gemm", "declare = task\n\n\n@declare(gemm", 1),
    "second": OWN.replace('@task(gemm="a @ b.T", a=', '@task(**{"gemm": "a @ b.T"}, a='),
}


@pytest.mark.parametrize("name", ODD)
def test_a_declaration_that_is_not_written_out_is_told_of_in_one_sentence(name, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(ODD[name])
    with pytest.raises(TaskError, match=rf"no task '{name}_fp8': its declaration is not written out as @task"):
        load_task(f"{file}:{name}_fp8")


def test_a_reference_that_is_no_function_at_the_top_of_its_file_is_told_of_in_one_sentence(tmp_path):
    file = tmp_path / "own.py"
    head, _, second = OWN.partition("@task")
    first = "@task" + second.partition("\n\n\n@task")[0]
    file.write_text(head + "if True:\n" + textwrap.indent(first, "    "))
    assert load_task(file).name == "called"
    with pytest.raises(TaskError, match="its reference is no function that stands at the top of its file"):
        load_task(f"{file}:called_fp8")


def test_parameters_by_keyword_alone_are_told_of_in_one_sentence(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.replace("def first(a, b)", "def first(*, a, b)"))
    with pytest.raises(TaskError, match="a and b are not among the plain parameters"):
        load_task(f"{file}:called_fp8")


def test_fp8_is_meant_where_nobody_says_how_a_task_with_fp8_operands_is_stored(tmp_path):
    """`codasmith run linear_bias_fp8` made a kernel for operands in bf16, which nobody had asked for."""
    assert shipped_task("linear_bias_fp8").usual_storage == "fp8"
    assert {shipped_task(name).usual_storage for name in ("linear_bias", "linear_scale_bias", "mlp_swiglu")} == {"bf16"}
    wrong = source_for("linear_bias_fp8").replace("+ bias", "- bias")
    assert gate.check(shipped_task("linear_bias_fp8"), wrong).storage == "fp8"
    assert gate.check(shipped_task("linear_bias_fp8"), wrong, storage="bf16").storage == "bf16"
    assert begun("linear_bias_fp8", tmp_path)["storage"] == "fp8"


@pytest.mark.parametrize("name", ["linear_bias", "linear_bias_fp8", "mlp_swiglu"])
def test_a_journal_finds_a_task_of_the_project_on_another_machine(name, tmp_path):
    """That of NAME_fp8, and of a program, named a file where the package lay when the run was begun."""
    assert begun(name, tmp_path)["task_path"] == name


def begun(name, folder):
    """The first line of a run's journal."""
    journal = folder / "journal.jsonl"
    CliRunner().invoke(app, ["run", name, "--minutes", "1e-9", "--cpu-only", "--journal", str(journal)])
    return json.loads(journal.read_text().splitlines()[0])


def test_a_task_with_fp8_operands_is_shown_as_it_is_stored():
    shown = CliRunner().invoke(app, ["tasks", "show", "linear_bias_fp8"]).stdout
    assert "K a multiple of 16" in shown and "timed    M4096 N4096 K4096 fp8;" in shown


def test_a_task_of_which_none_with_fp8_operands_can_be_made_names_none(tmp_path):
    """`tasks show` and a refused --storage fp8 named one that was no task when asked for."""
    file = tmp_path / "own.py"
    file.write_text(OWN)
    for name, why in {"called": "", "second": "a @ b.T 2 times"}.items():
        shown = CliRunner().invoke(app, ["tasks", "show", f"{file}:{name}"]).stdout
        assert (f"with fp8 operands: {name}_fp8" in shown) is (not why)
        with pytest.raises(TaskError, match=why or f"with fp8 operands it is {name}_fp8$"):
            load_task(f"{file}:{name}").check_storage("fp8")
    file.write_text(OWN.replace("+ a @ b.T", "").replace("c=Tensor", 'workloads=[{"M": 8, "N": 8, "K": 24}], c=Tensor'))
    with pytest.raises(TaskError, match=r"fp8 is asked: .*make K a multiple of 16$"):
        load_task(f"{file}:second").check_storage("fp8")
