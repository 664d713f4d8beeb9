"""Loading tasks: what works, and one sentence for each thing that does not."""

import re
import sys
import textwrap

import pytest
import torch
from codasmith.tasks import TaskError, catalogue, draw, load_task, oracle

GOOD = '''
from codasmith.tasks import Tensor, task

FACTOR = 3.0


def scaled(y):
    return y * FACTOR


@task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K", scale="K**-0.5"), out={"y": Tensor("M N")})
def tripled(x, w):
    """Three times the product."""
    return {"y": scaled(x @ w.T)}
'''


@pytest.fixture
def write(tmp_path):
    def write(text, name="my_task.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def declare(
    declaration='x=Tensor("M K"), w=Tensor("N K")', out='{"y": Tensor("M N")}', body='return {"y": x @ w.T}', **more
):
    gemm = more.pop("gemm", "x @ w.T")
    extra = "".join(f", {k}={v!r}" for k, v in more.items())
    parameters = ", ".join(re.findall(r"(\w+)=Tensor", declaration))
    return (
        "import torch\nfrom codasmith.tasks import Tensor, task\n\n\n"
        f'@task(gemm="{gemm}", {declaration}, out={out}{extra})\ndef mine({parameters}):\n    {body}\n'
    )


def test_catalogue_task_loads_by_name():
    assert load_task("rmsnorm_swiglu") is catalogue()["rmsnorm_swiglu"]


def test_typo_suggests_the_nearest_name():
    with pytest.raises(TaskError, match=r"no task 'rmsnorm_swigl' in the catalogue.*did you mean rmsnorm_swiglu"):
        load_task("rmsnorm_swigl")


def test_a_name_without_the_ending_of_a_file_that_is_here_is_told_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_task.py").write_text("")
    with pytest.raises(TaskError, match=r"no task 'my_task' .*did you mean my_task\.py, which is here\?"):
        load_task("my_task")


def test_unlike_name_lists_the_catalogue():
    with pytest.raises(TaskError, match="its names: codasmith tasks list"):
        load_task("zzzz")


def test_file_loads_from_anywhere_and_computes(write):
    task = load_task(write(GOOD))
    inputs = draw(task, task.correctness_workloads()[0])
    torch.testing.assert_close(oracle(task, inputs)["y"], 3 * inputs["x"].double() @ inputs["w"].double().T)


def test_relative_path_loads(write, monkeypatch):
    monkeypatch.chdir(write(GOOD).parent)
    assert load_task("my_task.py").name == "tripled"


def test_file_called_like_a_package_hides_nothing(write):
    before = {"tasks": sys.modules.get("tasks"), "torch": sys.modules["torch"]}
    load_task(write(GOOD, "tasks.py"))
    load_task(write(GOOD, "torch.py"))
    assert {"tasks": sys.modules.get("tasks"), "torch": sys.modules["torch"]} == before


def test_edited_file_loads_anew(write):
    first = load_task(write(GOOD))
    second = load_task(write(GOOD.replace("3.0", "5.0")))
    assert first.digest != second.digest
    assert second.reference(torch.ones(1, 8), torch.ones(8, 8))["y"][0, 0] == 40


def test_digest_follows_meaning_and_not_wording(write):
    digest = load_task(write(GOOD)).digest
    same = GOOD.replace("Three times the product", "Other words").replace(
        "return y * FACTOR", "return y * FACTOR  # why"
    )
    assert load_task(write(same)).digest == digest
    assert load_task(write(GOOD.replace("y * FACTOR", "y + FACTOR"))).digest != digest
    assert load_task(write(GOOD.replace('"K**-0.5"', '"K**-0.6"'))).digest != digest
    assert (
        load_task(
            write(GOOD.replace("x @ w.T)}", "w.flip(0) @ x.T)}".replace("w.flip(0) @ x.T", "x @ w.T.flip(0)")))
        ).digest
        != digest
    )


TWO = GOOD + GOOD.replace("def tripled", "def other")


def test_one_of_several_is_chosen_by_name(write):
    assert load_task(f"{write(TWO)}:other").name == "other"


def test_several_without_a_name_are_listed(write):
    with pytest.raises(TaskError, match=r"2 tasks \(tripled, other\); say which, such as my_task.py:tripled"):
        load_task(write(TWO))


def test_unknown_name_in_a_file_lists_those_there(write):
    with pytest.raises(TaskError, match=r"defines no task 'third'; it defines tripled, other"):
        load_task(f"{write(TWO)}:third")


def test_imported_tasks_are_not_the_files_own(write):
    text = "from codasmith.tasks.catalogue.linear_bias import linear_bias\n" + GOOD
    assert load_task(write(text)).name == "tripled"


def test_missing_file_suggests_its_neighbour(write):
    path = write(GOOD)
    with pytest.raises(TaskError, match=r"no file .*my_tusk.py; did you mean .*my_task.py"):
        load_task(path.with_name("my_tusk.py"))


def test_folder_and_other_files_are_refused(write, tmp_path):
    with pytest.raises(TaskError, match="is a folder"):
        load_task(str(tmp_path) + "/")
    with pytest.raises(TaskError, match=r"notes.txt is not a Python file"):
        load_task(write("hello", "notes.txt"))


BAD = {
    "syntax": ("def f(:\n    pass\n", r"my_task.py, line 1: invalid syntax"),
    "missing module": (
        "import os\nimport no_such_thing\n",
        r"my_task.py does not import, line 2: ModuleNotFoundError: No module named 'no_such_thing'",
    ),
    "exception": ("x = 1\n\ny = x / 0\n", r"does not import, line 3: ZeroDivisionError"),
    "exit": ("raise SystemExit(3)\n", r"does not import, line 1: SystemExit"),
    "empty": ("x = 1\n", r"my_task.py defines no task; put @task"),
    "gemm": (declare(gemm="x + w"), r"gemm='x \+ w' is not a product"),
    "gemm names": (declare(gemm="x @ v.T"), r"names 'v', which is not one of the declared tensors \(x, w\)"),
    "contraction": (declare(gemm="x @ w"), r"contracts K with N"),
    "symbol": (declare(out='{"y": Tensor("M Q")}'), r"output y uses the symbol 'Q', which no input has"),
    "shape": (declare(out='{"y": Tensor("N M")}'), r"y has shape \[N M\], which does not follow from the product"),
    "operand shape": (
        declare('x=Tensor("M K"), w=Tensor("N K"), b=Tensor("K")'),
        r"b has shape \[K\], which does not follow",
    ),
    "dimension": (declare('x=Tensor("M-1 K"), w=Tensor("N K")'), r"the dimension 'M-1'"),
    "dtype name": (declare(out='{"y": Tensor("M N", "bf61")}'), r"the dtype 'bf61' is not one of"),
    "wide operand": (declare('x=Tensor("M K"), w=Tensor("N K", "f32")'), r"w is f32 and an operand of the product"),
    "float64": (declare(out='{"y": Tensor("M N", "f64")}'), r"y is float64, which no kernel holds"),
    "index shape": (
        declare('x=Tensor("M K"), w=Tensor("N K"), t=Tensor("N", "i64", low=0, high=3)'),
        r"t holds indices",
    ),
    "output index": (declare(out='{"y": Tensor("M", "i64")}'), r"output y is \[M\] i64"),
    "layout": (declare('x=Tensor("M K", layout="halves"), w=Tensor("N K")'), r"x has layout 'halves'"),
    "accumulates unknown": (declare(accumulates="z"), r"accumulates='z' is not an output"),
    "accumulates without input": (declare(accumulates="y"), r"take its initial value as a parameter y=Tensor\('M N'\)"),
    "output named as input": (
        declare('x=Tensor("M K"), w=Tensor("N K"), y=Tensor("M N")'),
        r"y is the name of an input and of an output",
    ),
    "workload symbols": (declare(workloads=[{"M": 8, "N": 8}]), r"gives no size for K"),
    "workload sizes": (declare(workloads=[{"M": 8, "N": 12, "K": 8}]), r"cannot run: y has 12 contiguous elements"),
    "scale": (declare('x=Tensor("M K"), w=Tensor("N K", scale="Q**2")'), r"the scale 'Q\*\*2' cannot be computed"),
    "raises": (declare(body='return {"y": x @ w}'), r"the reference raises RuntimeError in line 7: mat1 and mat2"),
    "not a dict": (declare(body="return x @ w.T"), r"returns a Tensor; return a dict with the outputs y"),
    "keys": (declare(body='return {"z": x @ w.T}'), r"returns z; return the declared outputs y"),
    "no keys": (declare(body="return {}"), r"returns nothing; return the declared outputs y"),
    "value": (declare(body='return {"y": 1.0}'), r"returns y as a float; return a tensor"),
    "integer answer": (declare(body='return {"y": (x @ w.T).long()}'), r"returns y as torch.int64"),
    "shape of the answer": (
        declare(body='return {"y": w @ x.T}'),
        r"returns y of shape \[200, 16\] where \[M N\] is \[16, 200\]",
    ),
    "nan": (declare(body='return {"y": torch.log(x @ w.T)}'), r"NaN or infinity in y on ordinary float64 inputs"),
    "narrowed": (
        declare(body='return {"y": torch.from_numpy((x @ w.T).float().numpy().astype("float32"))}'),
        r"y as torch.float32",
    ),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_bad_file_is_refused_in_one_sentence(write, text, words):
    with pytest.raises(TaskError, match=words) as caught:
        load_task(write(text))
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    assert "Traceback" not in message


def test_two_tasks_of_one_name_are_refused(write):
    text = GOOD + GOOD.replace("def tripled", "def other").replace("@task(", '@task(name="tripled", ')
    with pytest.raises(TaskError, match="two tasks called 'tripled'"):
        load_task(write(text))


def test_digest_follows_helpers_behind_another_decorator(write):
    text = GOOD.replace("def tripled", "@torch.no_grad()\ndef tripled").replace(
        "from codasmith", "import torch\nfrom codasmith", 1
    )
    digest = load_task(write(text)).digest
    assert load_task(write(text.replace("y * FACTOR", "y - FACTOR"))).digest != digest
