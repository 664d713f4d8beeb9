"""What a kernel does beside computing: the cause is reported, not what follows from it."""

from types import SimpleNamespace

import pytest
import torch
from codasmith.gate import numerics, referee
from codasmith.gate.arena import Arena
from codasmith.gate.buffers import place
from codasmith.gate.job import Refused
from codasmith.gate.runners import LAUNCH_S, LIMIT_S
from codasmith.gate.verdict import Finding
from codasmith.tasks import load_task

TASK = load_task("rmsnorm_scale")


def changes_its_input(buffers):
    """Each run of an output that depends on an input differs, since each changes it."""
    buffers.inputs["rstd"].add_(1.0)
    buffers.outputs["y"].copy_(buffers.inputs["rstd"][:, None].expand_as(buffers.outputs["y"]))


def writes_beyond(buffers):
    """Into the canary after an output, and the input that comes with it too."""
    changes_its_input(buffers)
    y = buffers.outputs["y"]
    torch.as_strided(y, (y.numel() + 1,), (1,), y.storage_offset())[-1] = 0.0


def draws_lots(buffers):
    buffers.outputs["y"].copy_(torch.rand(buffers.outputs["y"].shape))


def computes(buffers):
    buffers.outputs["y"].fill_(0.5)


def run(kernel, monkeypatch):
    arena = Arena(2**22, torch.device("cpu"))
    (buffers,) = place(arena, TASK, TASK.correctness_workloads()[0], 1)

    def call(op, **_):
        if op == "launch":
            kernel(buffers)

    monkeypatch.setattr(numerics, "bind", lambda *_: ["only"])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    judge = SimpleNamespace(arena=arena, runner=SimpleNamespace(call=call))
    item, seen = SimpleNamespace(schedule="only", key="only"), {"runs": 0}
    job = SimpleNamespace(task=TASK)
    found = numerics._run(judge, job, item, buffers, TASK.correctness_workloads()[0], seen)
    assert seen["runs"] == numerics.RUNS
    return found


@pytest.mark.parametrize(
    ("kernel", "code", "said"),
    [
        (changes_its_input, "guard-input-changed", "changed its input rstd"),
        (writes_beyond, "guard-out-of-bounds", "wrote beyond"),
        (draws_lots, "guard-run-to-run", "The output y differs from run to run"),
    ],
)
def test_the_cause_is_reported_before_what_follows_from_it(kernel, code, said, monkeypatch):
    with pytest.raises(Refused, match=said) as caught:
        run(kernel, monkeypatch)
    assert caught.value.finding.code == code


def test_a_kernel_that_only_computes_is_let_through_with_its_outputs(monkeypatch):
    assert (run(computes, monkeypatch)["y"] == 0.5).all()


@pytest.mark.parametrize(("name", "limit"), [("rmsnorm_scale", LAUNCH_S), ("mlp_gelu", LIMIT_S)])
def test_a_launch_has_seconds_but_where_row_kernels_are_compiled_on_the_way(name, limit, monkeypatch):
    runner = SimpleNamespace(call=lambda *_, **__: {}, limit_s=1000.0)
    judge = object.__new__(referee.Referee)
    judge.runners = SimpleNamespace(begin=lambda *, hostile: None, current=runner)
    seen = []

    def refuse(judge, job):
        seen.append(judge.runner.limit_s)
        raise Refused(Finding(code="seen", message="Seen."))

    monkeypatch.setattr("codasmith.gate.tune.tune", refuse)
    judge._judge(SimpleNamespace(task=load_task(name), stages=[], bare=[], candidate=[]), False)
    assert seen == [limit]
