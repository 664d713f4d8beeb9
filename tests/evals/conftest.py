"""A gate that judges by words in the source, models whose answers follow from the question, and a small set."""

import hashlib
import random
from dataclasses import dataclass

import pytest
import torch
from codasmith.agent.models import Answer, Usage, prompt_digest
from codasmith.evals.evalset import EvalSet, LoadedSet, load_set
from codasmith.evals.run_folder import RunSpec
from codasmith.gate.verdict import Finding, StageResult, Verdict

FOUR = ("linear_bias", "linear_silu", "rmsnorm_swiglu", "linear_lse")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small tensors gain nothing from more threads, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass
class FakeEvaluation:
    verdict: Verdict


def fake_gate(task, source, *, tier="closed", progress=None, **_):
    """Refuses WRONG, breaks on BROKEN, checks CHECKED; else it passes with the numbers of `tax=1.05 fast=1.2`.

    Sources without such words, as the hand-written ones, pass with a tax of 1.01 and a speed-up of 1.25.
    """
    stages = [StageResult(stage="read", outcome="passed", seconds=0.05)]
    status, timing, note, environment = "passed", {}, "", {}
    if "WRONG" in source:
        finding = Finding(code="wrong-values", message="y is off by <b>2</b>.", remedy="Halve it.", output="y")
        stages.append(StageResult(stage="interpret", outcome="failed", seconds=0.25, finding=finding))
        status = "refused"
    elif "BROKEN" in source:
        status, note = "failed", "the driver went away"
    elif "CHECKED" in source:
        status = "checked"
        stages.append(StageResult(stage="compile", outcome="passed", seconds=1.0))
    else:
        tax, fast = _said(source, "tax", 1.01), _said(source, "fast", 1.25)
        stages += [StageResult(stage=s, outcome="passed", seconds=1.0) for s in ("compile", "numerics", "timing")]
        environment = {"gpu": "NVIDIA H200", "driver": "580.1", "torch": "2.13.0"}
        kernel = 1.0 * tax
        row = {
            "workload": {"sizes": {"M": 4096, "N": 4096, "K": 4096}, "storage": "bf16"},
            "schedule": "128x256-coop-2x1",
            "milliseconds": {
                **{"kernel": kernel, "cublas": 1.0, "bare 128x256-coop-2x1": 1.02},
                **{"compile": kernel * fast, "eager": kernel * fast * 1.5},
            },
            "tax": {"value": tax, "low": tax * 0.99, "high": tax * 1.01},
            "best_baseline": "compile",
        }
        timing = {"tax": tax, "workloads": [row]}
    verdict = Verdict(
        task=task.name,
        task_digest=task.digest,
        candidate_digest=hashlib.sha256(source.encode()).hexdigest(),
        tier=tier,
        status=status,
        stages=tuple(stages),
        timing=timing,
        environment=environment,
        note=note,
    )
    return FakeEvaluation(verdict)


def _said(source, word, default):
    return float(source.split(f"{word}=")[1].split()[0]) if f"{word}=" in source else default


class Dice:
    """A model whose answer is drawn from the question: the same question always gets the same answer."""

    def __init__(self, name, skill, dollars=0.01, before=None):
        self.name, self.skill, self.dollars, self.before = name, skill, dollars, before

    def answer(self, messages, *, max_tokens, on_text=None):
        if self.before:
            self.before()
        rng = random.Random(self.name + prompt_digest(messages))
        if rng.random() > self.skill:
            words = f"WRONG {rng.randrange(1000)}"
        else:
            words = f"tax={1 + rng.random() * 0.2:.4f} fast={0.9 + self.skill * rng.random():.4f}"
        text = f"Some words.\n\n```python\nx = 1  # {words}\n```\n"
        usage = Usage(input_tokens=1000, output_tokens=200, dollars=self.dollars)
        return Answer(text=text, usage=usage, model=self.name, seconds=0.5)


def _spec(loaded, *models, **changes):
    values = {
        **{"version": "0.1.0", "set": loaded.spec.name, "set_digest": loaded.spec.digest, "models": models},
        **{"samples": 2, "attempts": 3, "target_tax": 1.02, "cpu_only": False},
    }
    return RunSpec.model_validate({**values, **changes})


@pytest.fixture(scope="session")
def gate():
    return fake_gate


@pytest.fixture(scope="session")
def dice():
    return Dice


@pytest.fixture(scope="session")
def spec():
    return _spec


@pytest.fixture(scope="session")
def public():
    return load_set()


@pytest.fixture(scope="session")
def four(public):
    """Four tasks of the public set, as a set of its own."""
    entries = tuple(e for e in public.spec.tasks if e.name in FOUR)
    small = EvalSet(name="four", version=1, split="public", tasks=entries)
    return LoadedSet(small, {n: public.tasks[n] for n in FOUR}, {n: n for n in FOUR})
