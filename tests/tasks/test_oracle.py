import pytest
import torch
from codasmith.tasks import TaskError, Tensor, Workload, cast, catalogue, draw, oracle, task, unfused

SIZES = {"M": 24, "N": 16, "K": 64}


def make(body, **more):
    @task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K", scale="K**-0.5"), out={"y": Tensor("M N")}, **more)
    def made(x, w):
        return body(x, w)

    return made


@pytest.mark.parametrize(
    "narrowing",
    [
        lambda t: t.float(),
        lambda t: t.bfloat16(),
        lambda t: t.to(torch.float32),
        lambda t: t.to(dtype=torch.bfloat16),
        lambda t: t.type(torch.float32),
        lambda t: torch.softmax(t, -1, dtype=torch.float32).log() + torch.logsumexp(t, -1, keepdim=True),
    ],
)
def test_oracle_stays_in_float64_whatever_the_reference_casts_to(narrowing):
    made = make(lambda x, w: {"y": narrowing(x @ w.T)})
    inputs = draw(made, Workload(sizes=SIZES))
    wide = cast(inputs, torch.float64)
    answer = oracle(made, inputs)["y"]
    assert answer.dtype == torch.float64
    torch.testing.assert_close(answer, wide["x"] @ wide["w"].T, rtol=1e-12, atol=1e-12)


def test_unfused_keeps_the_casts_and_rounds_to_the_declared_dtype():
    made = make(lambda x, w: {"y": (x.float() @ w.float().T) * 2})
    inputs = draw(made, Workload(sizes=SIZES, storage="fp16"))
    answer = unfused(made, inputs)["y"]
    assert torch.equal(answer, ((inputs["x"].float() @ inputs["w"].float().T) * 2).half())


def test_cast_leaves_indices_and_numbers():
    inputs = {"x": torch.ones(2, dtype=torch.bfloat16), "t": torch.tensor([1]), "a": 0.5}
    wide = cast(inputs, torch.float64)
    assert (wide["x"].dtype, wide["t"].dtype, wide["a"]) == (torch.float64, torch.int64, 0.5)


def test_accumulating_reference_adds_to_the_initial_value_and_leaves_it_alone():
    accumulate = catalogue()["linear_accumulate"]
    inputs = draw(accumulate, accumulate.correctness_workloads()[0])
    before = inputs["dw"].clone()
    wide = cast(inputs, torch.float64)
    torch.testing.assert_close(oracle(accumulate, inputs)["dw"], before.double() + wide["dy"].T @ wide["x"])
    unfused(accumulate, inputs)
    assert torch.equal(inputs["dw"], before)


def test_reference_that_adds_in_place_does_not_change_the_inputs():
    @task(
        gemm="dy.T @ x",
        dy=Tensor("K M"),
        x=Tensor("K N"),
        dw=Tensor("M N", "f32"),
        out={"dw": Tensor("M N", "f32")},
        accumulates="dw",
    )
    def in_place(dy, x, dw):
        return {"dw": dw.add_(dy.T @ x)}

    inputs = draw(in_place, Workload(sizes=SIZES))
    before = inputs["dw"].clone()
    first = unfused(in_place, inputs)["dw"]
    assert torch.equal(inputs["dw"], before)
    assert torch.equal(first, unfused(in_place, inputs)["dw"])


def test_wrong_inputs_to_a_reference_name_the_task():
    made = make(lambda x, w: {"y": x @ w})
    with pytest.raises(TaskError, match=r"task 'made': the reference raises RuntimeError in line \d+"):
        oracle(made, draw(made, Workload(sizes=SIZES)))


def test_stored_preactivation_feeds_the_backward_task_as_it_is():
    tasks = catalogue()
    forward, backward = tasks["linear_swiglu"], tasks["swiglu_bwd"]
    inputs = draw(forward, forward.correctness_workloads()[0])
    saved = oracle(forward, inputs)
    dy = torch.randn(saved["o"].shape[0], 24, dtype=torch.float64)
    w = torch.randn(24, saved["o"].shape[1], dtype=torch.float64)
    torch.testing.assert_close(oracle(backward, {"dy": dy, "w": w, "z": saved["z"]})["o"], saved["o"])
