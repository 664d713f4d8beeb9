"""A machine with too little memory: no verdict, one sentence with the workload and what it needs."""

from dataclasses import replace
from importlib.resources import files
from random import Random
from types import SimpleNamespace

import pytest
import torch
from codasmith.gate import numerics, pipeline
from codasmith.gate.arena import Arena
from codasmith.gate.buffers import workspace
from codasmith.gate.frame import frame_of
from codasmith.gate.job import Job, Object, Refused
from codasmith.gate.memory import TooLittleMemory, enough_memory
from codasmith.gate.pipe import ChildFailed
from codasmith.gate.read import read_stage
from codasmith.gate.tune import TURN_MS, prepare
from codasmith.tasks import Workload, catalogue, oracle, task, unfused
from codasmith.tasks.tensor import Tensor
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES

TASK = catalogue()["linear_bias"]
LARGE = Workload(sizes={"M": 16384, "N": 28672, "K": 8192})
OUT = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 79 GiB.")


def job(checked):
    item = SimpleNamespace(schedule="only")
    return Job(
        task=TASK,
        storage="bf16",
        candidate=[item],
        bare=[],
        timed=[],
        checked=checked,
        rounds=9,
        compile_baseline=False,
        seed=Random(1).randrange(2**20),
        graph=None,
        say=lambda *_: None,
        gated=["only"],
    )


def referee(size):
    return SimpleNamespace(arena=Arena(size, torch.device("cpu")))


def test_a_workload_too_large_for_the_shared_block_is_no_verdict():
    small = TASK.correctness_workloads()[0]
    with pytest.raises(
        TooLittleMemory, match=rf"^linear_bias at {small.label} needs 0.0 GiB for its tensors, and .*; "
    ):
        numerics.check(referee(2**14), job([small]))


def test_sets_leave_room_for_the_workspaces_of_all_kernels_that_race():
    """Small products fill the block with sets, beside which reductions take more than what is kept free at least."""
    entropy = catalogue()["linear_entropy"]
    source = (files("codasmith.verified_kernels.hand_written") / "linear_entropy.py").read_text()
    _, graph = read_stage(entropy, source, "closed")
    frame = frame_of(entropy, "bf16")
    made = [generate(graph, frame, s).signature.model_copy(update={"symbol": s.name}) for s in SCHEDULES]
    judged = replace(job([]), task=entropy, candidate=[Object(g.symbol, "", g) for g in made], gated=[])
    arena = Arena(2**24, torch.device("cpu"))
    small = Workload(sizes={"M": 512, "N": 2048, "K": 64})
    sets = prepare(SimpleNamespace(arena=arena), judged, small, likely=TURN_MS / 48)
    described = [workspace(arena, buffers, signature) for buffers in sets for signature in made]
    assert 2 < len(sets) < 48 and all(described)
    assert arena.left < arena.used / len(sets), "and no more room than another set takes"


@pytest.mark.parametrize("where", ["unfused", "oracle"])
def test_a_gpu_that_is_full_while_the_oracle_is_computed_is_no_verdict(monkeypatch, where):
    def full(*_):
        raise OUT

    small = TASK.correctness_workloads()[0]
    monkeypatch.setattr(numerics, "_run", lambda *given: {n: t.zero_() for n, t in given[3].outputs.items()})
    monkeypatch.setattr(f"codasmith.gate.tolerance.{'unfused' if where == 'unfused' else 'pieces'}", full)
    with pytest.raises(TooLittleMemory, match=r"linear_bias at M16 K72 N200 bf16 needs .* another 3\.50 GiB") as caught:
        numerics.check(referee(2**22), job([small]))
    assert "CUDA" not in str(caught.value)  # which would say that the process must end


def test_wrong_values_are_still_a_refusal(monkeypatch):
    small = TASK.correctness_workloads()[0]
    monkeypatch.setattr(numerics, "_run", lambda *given: {n: t.zero_() for n, t in given[3].outputs.items()})
    with pytest.raises(Refused, match=r"The output y is wrong on M16 K72 N200 bf16 \(normal\) with only:.*; all zero"):
        numerics.check(referee(2**22), job([small]))


def test_what_a_workload_needs_is_said_in_gibibytes():
    needed = 2 * (16384 * 8192 + 28672 * 8192 + 28672 + 16384 * 28672) / 2**30
    with pytest.raises(TooLittleMemory, match=f"needs {needed:.1f} GiB for its tensors"), enough_memory(TASK, LARGE):
        raise OUT


def test_a_reference_that_runs_out_of_memory_is_not_called_wrong():
    @task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})
    def full(x, w):
        raise OUT

    inputs = {"x": torch.zeros(8, 8), "w": torch.zeros(8, 8)}
    for compute in (oracle, unfused):
        with pytest.raises(torch.OutOfMemoryError):
            compute(full, inputs)


def test_such_a_failure_ends_as_failed_not_as_refused(monkeypatch):
    sentence = "TooLittleMemory: linear_bias at M16 needs 1 GiB"

    def judge(self, workloads, compile_baseline, rounds):
        raise ChildFailed(sentence, "error")

    monkeypatch.setattr(pipeline, "has_gpu", lambda: True)
    monkeypatch.setattr(pipeline._Run, "read_and_interpret", lambda self: None)
    monkeypatch.setattr(pipeline._Run, "compile", lambda self, schedules: None)
    monkeypatch.setattr(pipeline._Run, "judge", judge)
    monkeypatch.setattr(pipeline, "session", lambda: SimpleNamespace(compiler=SimpleNamespace(start=lambda: None)))
    verdict = pipeline.evaluate(TASK, "").verdict
    assert (verdict.status, sentence in verdict.note) == ("failed", True)
