import pytest
import torch
from codasmith.tasks import (
    FAMILIES,
    TaskError,
    Tensor,
    Workload,
    catalogue,
    draw,
    legal,
    load_task,
    oracle,
    shipped_task,
    task,
    unfused,
)
from codasmith.tasks.quantise import FP8, multiplied
from codasmith.tasks.scaled import why_not

TASKS = {name: t for name, t in catalogue().items() if "fp8" in t.storages}
SIZES = {"M": 40, "N": 48, "K": 80}
MINE = """
import torch
import torch.nn.functional as F
from codasmith.tasks import Tensor, task


@task(
    gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={{"y": Tensor("M N")}},
    row_scale=Tensor("M", "f32", low=0.5, high=1.5), col_scale=Tensor("N", "f32", low=0.5, high=1.5),
    fp8={{"x": "row_scale", "w": "col_scale"}},
)
def mine(x, w, row_scale, col_scale):
    return {{"y": (({product}) * row_scale[:, None] * col_scale).to(x.dtype)}}
"""
SCALES = {"row_scale": Tensor("M", "f32", low=0.5, high=1.5), "col_scale": Tensor("N", "f32", low=0.5, high=1.5)}


def declared(gemm="x @ w.T", fp8=None, x=Tensor("M K"), w=Tensor("N K"), **more):
    @task(
        gemm=gemm,
        x=x,
        w=w,
        **(SCALES | more),
        out={"y": Tensor("M N")},
        fp8=fp8 or {"x": "row_scale", "w": "col_scale"},
    )
    def made(x, w, row_scale, col_scale):
        return {"y": (x @ w.T) * row_scale[:, None] * col_scale}

    return made


def drawn(name, family, storage="fp8"):
    return draw(TASKS[name], Workload(sizes=SIZES, storage=storage, family=family))


def test_forward_linear_tasks_with_room_for_scales_offer_fp8():
    assert {"linear_scale_bias", "linear_scale_swiglu", "linear_alpha_beta_residual", "rmsnorm_swiglu"} <= set(TASKS)
    assert catalogue()["linear_bias"].storages == ("bf16", "fp16")


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "integers"])
def test_scales_give_back_what_the_same_seed_draws_in_bf16(family):
    """A scale a row of each operand, and what the inputs hold beside it: within e4m3's 1/16 of each row's largest."""
    plain, small = drawn("linear_scale_bias", family, "bf16"), drawn("linear_scale_bias", family)
    assert small["x"].dtype == small["w"].dtype == FP8 and small["bias"].dtype == torch.bfloat16
    for operand, taker in (("x", "row_scale"), ("w", "col_scale")):
        held, wanted = small[operand].double(), plain[operand].double()
        scale = (small[taker] / plain[taker]).double()[:, None]
        assert held.abs().amax(1).max() == 448 and not (scale == 1).all()
        error = (held * scale - wanted).abs()
        assert (error <= wanted.abs() / 14 + scale * 2**-10 + 1e-3 * scale).all()
    assert torch.equal(plain["bias"], small["bias"])


def test_one_scale_for_the_whole_operand_where_a_number_takes_it():
    plain, small = (drawn("linear_alpha_beta_residual", "normal", s) for s in ("bf16", "fp8"))
    scales = [plain[n].float().abs().max() / 448 for n in ("x", "w")]
    assert small["alpha"] == pytest.approx(plain["alpha"] * float(scales[0] * scales[1]), rel=0.01)
    assert all(small[n].float().abs().max() == 448 for n in ("x", "w"))


def test_whole_numbers_stay_whole_and_their_scale_is_a_power_of_two():
    plain, small = drawn("linear_scale_bias", "integers", "bf16"), drawn("linear_scale_bias", "integers")
    assert torch.equal(small["x"].double(), 16 * plain["x"].double())
    assert torch.equal(oracle(TASKS["linear_scale_bias"], small)["y"], oracle(TASKS["linear_scale_bias"], plain)["y"])


def test_rows_of_zeros_are_drawn_as_zeros():
    @task(gemm="x @ w.T", x=Tensor("M K", scale=0.0), w=Tensor("N K"), **SCALES, out={"y": Tensor("M N")},
          fp8={"x": "row_scale", "w": "col_scale"})  # fmt: skip
    def zeros(x, w, row_scale, col_scale):
        return {"y": (x @ w.T) * row_scale[:, None] * col_scale}

    made = draw(zeros, Workload(sizes=SIZES, storage="fp8"))
    assert not made["x"].double().any() and torch.isfinite(made["row_scale"]).all()


@pytest.mark.parametrize("name", TASKS)
def test_oracle_takes_the_operands_as_exact_numbers_and_outputs_are_bf16(name):
    problem = TASKS[name]
    for workload in problem.correctness_workloads("fp8"):
        assert legal(problem, workload.sizes, "fp8") is None and workload.sizes["K"] % 128
        inputs = draw(problem, workload)
        wide = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
        truth, plain = oracle(problem, inputs), unfused(problem, inputs)
        for output, value in problem.reference(**wide).items():
            assert torch.equal(truth[output], value)
            assert plain[output].dtype == torch.bfloat16
            error = (plain[output].double() - value).abs().max()
            assert error <= value.abs().max() / 64


def test_a_product_of_fp8_tensors_is_scaled_mm_and_compiles_in_one_graph():
    problem = TASKS["linear_scale_bias"]
    inputs = drawn("linear_scale_bias", "normal")
    run = multiplied(problem.reference, torch.ones(()))
    a, b = inputs["x"], inputs["w"]
    product = torch._scaled_mm(a, b.T, torch.ones(()), torch.ones(()), out_dtype=torch.bfloat16)
    expected = product * inputs["row_scale"][:, None] * inputs["col_scale"] + inputs["bias"]
    assert torch.equal(run(**inputs)["y"], expected)
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(**inputs)["y"], expected)
    assert torch.equal(expected.bfloat16(), unfused(problem, inputs)["y"])


@pytest.mark.parametrize("columns", [8, 16, 40])
def test_a_product_of_fp8_tensors_has_any_number_of_columns(columns):
    problem = TASKS["linear_scale_bias"]
    inputs = draw(problem, Workload(sizes={**SIZES, "N": columns}, storage="fp8", family="integers"))
    found = multiplied(problem.reference, torch.ones(()))(**inputs)["y"]
    assert found.is_contiguous() and torch.equal(found.double(), oracle(problem, inputs)["y"])


PRODUCTS = {
    "x @ w.T": True,
    "x.mm(mat2=w.T)": True,
    "torch.matmul(other=w.T, input=x)": True,
    "F.linear(x, w, bias=None)": True,
    "(x @ w.T).type_as(x)": True,
    "x.float() @ w.float().T": True,
    "F.linear(x, w, row_scale.new_zeros(len(w)).to(x.dtype))": False,
    "torch.einsum('mk,nk->mn', x, w)": False,
    "torch.inner(x, w)": False,
}


@pytest.mark.parametrize(("product", "taken"), PRODUCTS.items())
def test_a_reference_that_a_gpu_could_not_run_on_fp8_operands_is_told_so_without_one(product, taken, tmp_path):
    """In bf16, without a GPU, all of them ran; on one, keywords gave an IndexError, and y was rounded to fp8."""
    file = tmp_path / "mine.py"
    file.write_text(MINE.format(product=product))
    if not taken:
        with pytest.raises(TaskError, match=r"^task 'mine': .* on fp8 .*; torch multiplies fp8 tensors only in x @ w"):
            load_task(file)
        return
    problem = load_task(file)
    inputs = draw(problem, Workload(sizes=SIZES, storage="fp8", family="integers"))
    run = multiplied(problem.reference, torch.ones(()))
    assert torch.equal(run(**inputs)["y"], oracle(problem, inputs)["y"].bfloat16())
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert compiled(**inputs)["y"].dtype == torch.bfloat16


@pytest.mark.parametrize("name", [n for n, t in catalogue().items() if t.fp8 or not why_not(t)])
def test_torch_compile_takes_a_reference_on_fp8_operands_in_one_graph(name):
    """It cut eight of them at `unflatten`, in whose pieces it lost its fusion: a baseline that was easy to beat."""
    problem = catalogue()[name] if catalogue()[name].fp8 else shipped_task(f"{name}_fp8")
    inputs = draw(problem, problem.correctness_workloads("fp8")[0])
    run = multiplied(problem.reference, torch.ones(()))
    torch._dynamo.reset()
    found = torch.compile(run, backend="eager", fullgraph=True)(**inputs)
    assert all(torch.equal(value, found[output]) for output, value in run(**inputs).items())


def test_depth_of_fp8_operands_is_a_multiple_of_sixteen():
    problem = TASKS["linear_scale_bias"]
    sizes = {**SIZES, "K": 72}
    assert legal(problem, sizes) is None
    assert "x has 72 contiguous elements (K), and the kernel moves 16 of them" in legal(problem, sizes, "fp8")
    with pytest.raises(TaskError, match="cannot run: x has 72 contiguous"):
        task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), **SCALES, out={"y": Tensor("M N")}, workloads=[sizes],
             fp8={"x": "row_scale", "w": "col_scale"})(_reference)  # fmt: skip


def _reference(x, w, row_scale, col_scale):
    return {"y": (x @ w.T) * row_scale[:, None] * col_scale}


def test_a_task_that_has_no_room_for_scales_is_refused_in_fp8():
    for ask in (catalogue()["linear_bias"].workloads, catalogue()["linear_bias"].correctness_workloads):
        with pytest.raises(
            TaskError, match=r"task 'linear_bias' is for bf16, fp16, and fp8 is asked; with fp8 operands"
        ):
            ask("fp8")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gemm": "x @ w", "w": Tensor("K N")}, "fp8 operands are contiguous along K, and those of x @ w are not both"),
        ({"gemm": "x.T @ w.T", "x": Tensor("K M")}, "those of x.T @ w.T are not both"),
        ({"fp8": {"x": "row_scale"}}, "gives scales to x, .* give one to x and one to w"),
        ({"fp8": {"x": "row_scale", "w": "bias"}}, "names 'bias' for the scale of w, which is no input"),
        ({"row_scale": Tensor("M")}, "no input that is a float32 vector"),
        ({"x": Tensor("M K", "bf16"), "w": Tensor("N K", "bf16")}, "x is bf16 whatever the storage dtype"),
        ({"x": Tensor("M K", "fp8"), "w": Tensor("N K", "fp8")}, "x is declared fp8, .* by the storage dtype"),
        ({"w": Tensor("N K", layout="halves")}, "one scale for each row of w and another layout"),
    ],
)
def test_what_cannot_be_stored_in_fp8_is_one_sentence(changes, words):
    with pytest.raises(TaskError, match=words) as caught:
        declared(**changes)
    assert "\n" not in str(caught.value)


def test_offering_fp8_changes_no_digest():
    one, other = declared(), declared(fp8={"x": "row_scale", "w": "row_scale"})
    assert one.digest == other.digest
