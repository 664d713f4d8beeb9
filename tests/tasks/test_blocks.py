"""The oracle in blocks of rows: the same as whole, in less memory, and whole where it cannot be cut."""

import weakref

import pytest
import torch
from codasmith.tasks import Tensor, Workload, blocks, draw, oracle, shipped, task
from codasmith.tasks.blocks import pieces, whole
from torch.utils._python_dispatch import TorchDispatchMode

ROW_NUMBERS = {"siglip_loss"}
"""Tasks of the catalogue whose reference compares a row's number with a column's."""
TASKS = shipped()


def workload_of(made, rows, **more):
    plain = made.correctness_workloads()[0]
    return plain.model_copy(update={"sizes": {**plain.sizes, made.m.symbol: rows, **more}})


def together(made, inputs, most):
    """The outputs put together from pieces, and how many pieces there were."""
    result = {n: torch.full_like(v, torch.nan) for n, v in oracle(made, inputs).items()}
    count = 0
    for name, where, values in pieces(made, inputs, most):
        assert result[name][where].isnan().all()
        result[name][where] = values
        count += 1
    return result, count


@pytest.mark.parametrize("name", TASKS)
def test_blocks_give_the_whole_for_every_task(name):
    made = TASKS[name]
    inputs = draw(made, workload_of(made, 40))
    answer, count = together(made, inputs, most=1)
    for output, expected in oracle(made, inputs).items():
        scale = float(expected.abs().max())
        torch.testing.assert_close(answer[output], expected, rtol=1e-13, atol=1e-13 * scale)
        assert torch.equal(whole(made, inputs, output, most=1), answer[output])
    symbol = made.m.symbol
    with_rows = sum(symbol in t.symbols for t in made.outputs.values())
    expected = len(made.outputs) if name in ROW_NUMBERS else 5 * with_rows + len(made.outputs) - with_rows
    assert count == expected


def declared(body, out, **more):
    @task(gemm="x @ w.T", level=3, x=Tensor("M K"), w=Tensor("N K", scale="K**-0.5"), out=out, **more)
    def uncut(x, w):
        return body(x, w)

    return uncut


def far_above_the_diagonal(x, w):
    y = x @ w.T
    far = torch.arange(len(x))[:, None] - torch.arange(len(w)) > 1024
    return {"y": torch.where(far, 0.0, y)}


def far_right_of_the_diagonal(x, w):
    y = x @ w.T
    far = torch.arange(len(w)) - torch.arange(len(x))[:, None] > 1024
    return {"y": torch.where(far, 0.0, y)}


UNCUT = {
    "rows far below": (far_above_the_diagonal, {"M": 2000, "N": 16}, "M N"),
    "columns far to the right": (far_right_of_the_diagonal, {"M": 40, "N": 2000}, "M N"),
    "count of rows": (lambda x, w: {"y": x @ w.T / len(x)}, {"M": 40, "N": 16}, "M N"),
    "only many rows": (lambda x, w: {"y": x @ w.T * (2 if len(x) > 1500 else 1)}, {"M": 2000, "N": 16}, "M N"),
    "sums down the rows": (lambda x, w: {"y": (x @ w.T).cumsum(0)}, {"M": 40, "N": 16}, "M N"),
    "rows by fifties": (lambda x, w: {"y": (x @ w.T).unflatten(0, (-1, 50)).flatten(0, 1)}, {"M": 400, "N": 16}, "M N"),
    "norm of a column": (lambda x, w: {"y": (x @ w.T).square().sum(0).sqrt()}, {"M": 40, "N": 16}, "N"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNCUT)
def test_a_reference_that_looks_beyond_its_row_is_computed_whole(case):
    body, sizes, shape = UNCUT[case]
    dtype = "f32" if shape == "N" else None
    made = declared(body, {"y": Tensor(shape, dtype)}, name=f"uncut_{sorted(UNCUT).index(case)}")
    inputs = draw(made, Workload(sizes={**sizes, "K": 64}))
    ((_, where, values),) = pieces(made, inputs, most=256 * max(sizes["N"], 64))
    if sizes["M"] < 256:
        ((_, where, values),) = pieces(made, inputs, most=1)
    assert where is ... and torch.equal(values, oracle(made, inputs)["y"])


def test_one_block_is_not_cut_and_nothing_is_tried(monkeypatch):
    monkeypatch.setattr(blocks, "_tried", {})
    made = TASKS["linear_bias"]
    found = list(pieces(made, draw(made, workload_of(made, 40))))
    assert [(name, where) for name, where, _ in found] == [("y", ...)] and not blocks._tried


def test_a_task_is_tried_once_for_its_sizes(monkeypatch):
    monkeypatch.setattr(blocks, "_tried", {})
    calls = []
    monkeypatch.setattr(blocks, "_try", lambda *given: calls.append(given) or {})
    made = TASKS["linear_bias"]
    for rows in (40, 40, 48):
        list(pieces(made, draw(made, workload_of(made, rows)), most=1))
    assert [sizes["M"] for _, sizes, *_ in calls] == [40, 48]


class Wide(TorchDispatchMode):
    """Counts the float64 bytes that are alive, and the largest tensor's elements."""

    def __init__(self):
        super().__init__()
        self.alive = {}
        self.most = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for t in result if isinstance(result, tuple | list) else [result]:
            if isinstance(t, torch.Tensor) and t.dtype == torch.float64:
                storage = t.untyped_storage()
                self.largest = max(self.largest, storage.nbytes() // 8)
                names, _ = self.alive.setdefault(storage._cdata, (set(), storage.nbytes()))
                names.add(id(t))
                weakref.finalize(t, self._gone, storage._cdata, id(t))
        self.most = max(self.most, sum(size for _, size in self.alive.values()))
        return result

    def _gone(self, storage, name):
        names, _ = self.alive.get(storage, (set(), 0))
        names.discard(name)
        if not names:
            self.alive.pop(storage, None)


@pytest.mark.parametrize("name", ["gelu_bwd_bias_grad", "residual_rmsnorm_bwd_inplace", "mlp_swiglu_bwd"])
def test_blocks_take_a_tenth_of_the_memory(name):
    made = TASKS[name]
    sizes = workload_of(made, 1024).sizes
    inputs = draw(made, Workload(sizes=sizes))
    widest = max(torch.Size(t.size(sizes)).numel() for t in made.everything.values())
    list(pieces(made, inputs, widest // 32))  # tried: that is small once there are many columns
    with Wide() as at_once:
        oracle(made, inputs)
    with Wide() as cut:
        for _, _, values in pieces(made, inputs, widest // 32):
            del values
    assert at_once.largest >= widest and at_once.most > 5 * 8 * widest
    assert cut.largest <= widest // 10 and cut.most < at_once.most / 10
