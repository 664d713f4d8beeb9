import pytest
import torch
from codasmith.tasks import FAMILIES, Tensor, catalogue, deinterleave, from_kernel, interleave, legal, task, to_kernel

TASKS = catalogue()


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("storage", ["bf16", "fp16"])
def test_correctness_workloads_are_legal_ragged_and_of_every_family(task, storage):
    workloads = task.correctness_workloads(storage)
    assert {w.family for w in workloads} == set(FAMILIES)
    assert len({w.seed for w in workloads}) == len(workloads)
    for workload in workloads:
        assert legal(task, workload.sizes) is None
        assert workload.storage == storage
        assert task.k.size(workload.sizes) % 8 == 0
    widths = [task.n.size(w.sizes) for w in workloads]
    # Whole heads of 128 cannot be ragged under a tile of 128 columns: under one of 256 they are.
    assert all(width % max(64, 2 * task.n.coefficient) for width in widths)
    rows = [task.m.size(w.sizes) for w in workloads]
    assert min(rows) <= 8 and max(rows) > 1000
    if not task.gemm.a_transposed:
        assert {1, 16, 128, 1000} <= set(rows)


def test_smallest_width_is_the_smallest_legal_one():
    for name, smallest in (("linear_bias", {"N": 8}), ("rmsnorm_swiglu", {"F": 8}), ("linear_zloss", {"N": 4})):
        task = TASKS[name]
        assert min(w.sizes[s] for w in task.correctness_workloads() for s in smallest) == smallest.popitem()[1]


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("linear_bias", {"M": 5, "N": 64, "K": 60}, "x has 60 contiguous elements (K)"),
        ("linear_bias", {"M": 5, "N": 60, "K": 64}, "make N a multiple of 8"),
        ("rmsnorm_swiglu", {"M": 5, "F": 12, "K": 64}, "o has 12 contiguous elements (F)"),
        ("swiglu_bwd", {"M": 5, "F": 12, "K": 64}, "make F a multiple of 8"),
        ("linear_accumulate", {"M": 5, "N": 64, "K": 64}, "dy has 5 contiguous elements (M)"),
        ("linear_zloss", {"M": 5, "N": 6, "K": 64}, "make N a multiple of 4"),
        ("linear_bias", {"M": 0, "N": 64, "K": 64}, "M is 0"),
        ("linear_bias", {"M": 5, "N": 64, "K": 0}, "K is 0"),
        ("linear_bias", {"M": 5, "N": 64}, "no size is given for K"),
    ],
)
def test_illegal_sizes_are_named(name, sizes, words):
    assert words in legal(TASKS[name], sizes)


def test_legal_sizes_need_no_multiple_where_nothing_is_contiguous():
    assert legal(TASKS["linear_bias"], {"M": 7, "N": 8, "K": 8}) is None
    assert legal(TASKS["linear_accumulate"], {"M": 8, "N": 8, "K": 7}) is None


def test_a_full_width_output_at_half_the_step_is_legal():
    @task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("2F K"), out={"z": Tensor("M 2F")})
    def wide(x, w):
        return {"z": x @ w.T}

    assert legal(wide, {"M": 3, "F": 4, "K": 8}) is None
    assert "make F a multiple of 4" in legal(wide, {"M": 3, "F": 6, "K": 8})


def test_interleave_alternates_halves_and_deinterleave_undoes_it():
    t = torch.tensor([[0, 1, 2, 10, 11, 12]])
    assert interleave(t).tolist() == [[0, 10, 1, 11, 2, 12]]
    assert torch.equal(deinterleave(interleave(t)), t)
    assert torch.equal(interleave(t.T, 0), interleave(t).T)
    assert torch.equal(deinterleave(interleave(t.T, 0), 0), t.T)


def test_kernel_view_moves_only_what_lies_as_halves():
    task = TASKS["linear_geglu_bias"]
    w, bias, o = torch.randn(8, 3), torch.randn(8), torch.randn(2, 4)
    assert torch.equal(to_kernel(task, "w", w)[1::2], w[4:])
    assert torch.equal(to_kernel(task, "bias", bias)[0::2], bias[:4])
    assert torch.equal(to_kernel(task, "o", o), o)
    x = torch.randn(2, 3)
    assert torch.equal(to_kernel(task, "acc", x @ w.T), x @ to_kernel(task, "w", w).T)
    for name, t in (("w", w), ("bias", bias), ("acc", x @ w.T)):
        assert torch.equal(from_kernel(task, name, to_kernel(task, name, t)), t)
    pairs = TASKS["swiglu_bwd"]
    z = torch.randn(2, 8)
    assert torch.equal(to_kernel(pairs, "z", z), z)
