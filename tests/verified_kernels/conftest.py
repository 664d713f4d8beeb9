"""Sample tasks, evaluations as the gate would hand them over, and a kernel that runs without a GPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from codasmith.gate.verdict import STAGES, StageResult, Verdict
from codasmith.tasks import load_task, oracle
from codasmith.templates import ABI
from codasmith.templates.schedule import SCHEDULES
from codasmith.templates.signature import Signature, TensorSpec
from codasmith.verified_kernels import recheck, runner, store
from codasmith.verified_kernels.modules.operators import operator
from torch.utils.dlpack import from_dlpack

SAMPLES = Path(__file__).parent / "sample_tasks.py"
ENVIRONMENT = {"gpu": "NVIDIA H200", "driver": "580.159.04", "cuda": "13.0", "torch": "2.11.0"}
HERE = {"gpu": "NVIDIA H200", "driver": "580.159.04", "cuda": "13.2"}


@pytest.fixture(autouse=True)
def homes(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("CODASMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CODASMITH_CACHE", str(tmp_path / "cache"))
    operator.cache_clear()  # what modules have loaded is of another registry
    yield tmp_path
    operator.cache_clear()


@pytest.fixture
def sample():
    return lambda name: load_task(f"{SAMPLES}:{name}")


@pytest.fixture
def evaluation(tmp_path):
    return lambda task, folder=tmp_path, **changes: make_evaluation(task, folder, **changes)


def make_evaluation(
    task, folder, *, source="# a candidate\n", storage="bf16", schedules=SCHEDULES[:2], body=b"", **verdict
):
    """What the gate returns for a candidate that passed; `body` makes the compiled objects differ."""
    objects, signatures = {}, {}
    for schedule in schedules:
        path = folder / f"{schedule.name}-{storage}.so"
        path.write_bytes(b"\x7fELF" + schedule.name.encode() * 200 + body)
        objects[schedule.name], signatures[schedule.name] = path, signature_of(task, schedule, storage)
    stages = tuple(StageResult(stage=s, outcome="passed") for s in STAGES)
    fields = {"status": "passed", "stages": stages, "environment": ENVIRONMENT, "timing": {"tax": 1.05}, **verdict}
    return SimpleNamespace(
        verdict=Verdict(task=task.name, task_digest=task.digest, candidate_digest="c" * 64, **fields),
        source=source,
        task=task,
        objects=objects,
        signatures=signatures,
        graph=None,
        graphs={},
        tier="closed",
        storage=storage,
    )


def signature_of(task, schedule, storage):
    named = {**task.tensors, **task.outputs}
    return Signature(
        abi=ABI,
        task=task.name,
        schedule=schedule,
        mode="element",
        storage=storage,
        a=task.gemm.a,
        a_transposed=task.gemm.a_transposed,
        b=task.gemm.b,
        b_transposed=task.gemm.b_transposed,
        tensors={
            name: TensorSpec(
                shape=tuple((d.coefficient, d.symbol) for d in tensor.dimensions),
                dtype=tensor.dtype or (storage if tensor.dimensions else "float"),
            )
            for name, tensor in named.items()
        },
        inputs=tuple(task.tensors),
        outputs=tuple(task.outputs),
        accumulates=task.accumulates,
    )


@pytest.fixture
def fake_kernel(monkeypatch, sample):
    """Stands in for the launcher: computes in float64 on the CPU, and keeps a list of what was launched."""
    launched = []

    class Kernel:
        def __init__(self, path, signature):
            assert path.read_bytes().startswith(b"\x7fELF")
            self.signature, self.task = signature, sample(signature.task)

        def bound(self, inputs):
            return self.launch

        def launch(self, values):
            launched.append(self.signature.schedule.name)
            inputs, fresh = dict(zip(self.task.tensors, values, strict=True)), []
            for name, value in oracle(self.task, inputs).items():
                if name in self.task.accumulates:
                    from_dlpack(inputs[name]).copy_(value)  # unseen by autograd, as a kernel's writes are
                else:
                    fresh.append(value.to(self.task.outputs[name].torch_dtype(self.signature.storage)))
            return tuple(fresh)

    monkeypatch.setattr(runner.template, "Kernel", Kernel)
    monkeypatch.setattr(runner, "_no_hopper", lambda device: None)
    monkeypatch.setattr(recheck, "surroundings", lambda device: HERE)
    monkeypatch.setattr(runner.template, "refuse", lambda signature, inputs: None)
    return launched
