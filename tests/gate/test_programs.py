"""Programs in the gate: read, interpreted and compiled stage by stage; judged as one, here by a runner on the host."""

from __future__ import annotations

import re
import types
from collections import Counter
from importlib.resources import files
from random import Random
from unittest.mock import Mock

import pytest
import torch
from codasmith import gate
from codasmith.gate import baselines, canary, numerics, stopwatch, timing
from codasmith.gate.arena import Arena, View
from codasmith.gate.frame import frame_of
from codasmith.gate.job import Job, Object
from codasmith.gate.referee import Referee
from codasmith.gate.runner import Runner
from codasmith.gate.shapes import drawn
from codasmith.gate.stages import interpret_program, read_program
from codasmith.gate.tune_program import chains
from codasmith.primitives import evaluate
from codasmith.tasks import Workload, draw, legal, load_task, oracle, program_tasks
from codasmith.tasks.layout import to_kernel
from codasmith.templates.generate import generate
from codasmith.templates.schedule import SCHEDULES

HAND_WRITTEN = files("codasmith.verified_kernels.hand_written") / "programs"
SIZES = {"mlp_swiglu": {"M": 40, "D": 48, "F": 56}, "rmsnorm_mlp_swiglu": {"M": 40, "K": 32, "D": 48, "F": 56}}


def source_of(name):
    return (HAND_WRITTEN / f"{name}.py").read_text()


@pytest.mark.parametrize("name", program_tasks())
def test_hand_written_programs_are_read_and_agree_with_their_references(name):
    task = load_task(name)
    result, graphs = read_program(task, source_of(name), "closed")
    assert result.outcome == "passed" and list(graphs) == list(task.parts), result.finding
    assert all(seen["same_as"] for seen in result.data["stages"].values())
    result = interpret_program(task, graphs)
    assert result.outcome == "passed", result.finding
    assert max(result.data["max_relative"].values()) < 1e-9


@pytest.mark.parametrize(
    ("old", "new", "stage", "message"),
    [
        (
            "silu(gate) * lift",
            "gate * silu(lift)",
            "interpret",
            "which the stage down writes.* Look at up and down; z is",
        ),
        (
            '"z": acc',
            '"z": acc * 1.01',
            "interpret",
            "output z, which the stage up writes.*constant factor of 1.01.*at up.",
        ),
        ('"y": acc', '"y": acc + acc * acc', "interpret", "The output y, which the stage down writes"),
        ('{"y": acc}', '{"q": acc}', "read", "In down: The returned key 'q' is not an output"),
        ("def down", "def dawn", "read", "In down: No function is called down"),
        ("down(acc)", "down(acc, z)", "read", "In down: The parameter z is not an operand"),
        ('"y": acc', '"y": acc * 0.0 + 1.0', "interpret", "the stage down writes"),
    ],
)
def test_a_mistake_is_told_with_its_stage(old, new, stage, message):
    source = source_of("mlp_swiglu")
    assert old in source
    result = refused("mlp_swiglu", source.replace(old, new))
    assert result.stage == stage and re.search(message, str(result.finding)), result.finding


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("(row_index(acc) > 20000.0) & (column_index(acc) > 20000.0)", "when its row changes"),
        ("(row_index(acc) + 16677216.0) - 16677216.0 != row_index(acc)", "and not in float32"),
    ],
)
def test_a_program_that_is_wrong_far_out_only_is_refused(late, message):
    wrong = source_of("mlp_gelu").replace("import ", "import column_index, row_index, where, ")
    wrong = wrong.replace('return {"y": acc + b_down}', f'return {{"y": where({late}, 0.0, acc + b_down)}}')
    assert message in refused("mlp_gelu", wrong).finding.message


def test_an_operand_that_a_stage_leaves_out_is_found_by_its_output():
    wrong = (
        source_of("linear_cross_entropy").replace("select(acc, target)", "row_max(acc)").replace("select", "row_max")
    )
    assert refused("linear_cross_entropy", wrong).finding.output == "loss"


def refused(name, source):
    task = load_task(name)
    result, graphs = read_program(task, source, "closed")
    result = result if result.finding else interpret_program(task, graphs)
    assert result.outcome == "failed"
    return result


def test_the_open_tier_is_refused_in_one_sentence():
    verdict = gate.check(load_task("mlp_swiglu"), "import cutlass\nepilogue = None\n", tier="cutedsl").verdict
    assert (
        verdict.status == "refused"
        and verdict.finding.code == "closed-only"
        and verdict.finding.message.count(".") == 1
    )


@pytest.mark.parametrize("name", program_tasks())
def test_sizes_drawn_for_a_program_are_legal_and_its_reference_stands_them(name):
    task = load_task(name)
    for workload in drawn(task, "bf16", 3, Random(1)):
        sizes = {s: min(n, 96) if s != "S" else n for s, n in workload.sizes.items()}
        assert legal(task, workload.sizes) is None
        if legal(task, sizes) is None:
            assert set(oracle(task, draw(task, workload.model_copy(update={"sizes": sizes})))) == set(task.outputs)


def test_every_gated_schedule_is_in_a_chain_and_each_workloads_best_together():
    gated = {"up": ["a", "b", "c"], "down": ["a"]}
    tuned = [
        {"up": {"a": 1.0, "b": 2.0, "c": 3.0}, "down": {"a": 1.0, "d": 0.5}},
        {"up": {"a": 2.0, "b": 1.0, "c": 3.0}, "down": {"a": 1.0, "d": 0.5}},
    ]
    assert chains(gated, tuned) == [{"up": "a", "down": "a"}, {"up": "b", "down": "a"}, {"up": "c", "down": "a"}]
    assert chains(gated, [])[0] == {"up": "a", "down": "a"} and len(chains(gated, [])) == 3


# --- the judgement, with the real runner on host memory and kernels that compute by torch ----------------


class HostRunner(Runner):
    """The runner without a GPU: a kernel computes what its epilogue says, and a graph is its calls."""

    def __init__(self, arena, task, graphs):
        self.view = View.__new__(View)
        self.view.block = arena.block
        self.task, self.epilogues, self.launched = task, graphs, Counter()
        self.reset()
        self.process = types.SimpleNamespace(pid=1)

    def call(self, op, **arguments):
        return {"ok": True, **self.answer({"op": op, **arguments})}

    def do_load(self, kernel, path, signature):
        self.kernels[kernel] = lambda *tensors: self.compute(path, *tensors)

    def compute(self, stage, inputs, outputs, workspace):
        self.launched[stage] += 1
        if stage == "bare":
            return
        part = self.task.parts[stage]
        a, b = inputs[part.gemm.a].float(), inputs[part.gemm.b].float()
        acc = (a.T if part.gemm.a_transposed else a) @ (b.T if part.gemm.b_transposed else b)
        operands = {n: v.float() for n, v in inputs.items() if n in part.operands}
        for name, value in evaluate(self.epilogues[stage], to_kernel(part, "acc", acc), operands).items():
            outputs[name].copy_(value)

    def do_graph(self, graph, calls):
        self.graphs[graph] = list(calls)

    def do_replay(self, graph, times):
        for _ in range(times):
            for call in self.graphs[graph]:
                self.calls[call]()


@pytest.fixture
def judged(monkeypatch, tmp_path):
    monkeypatch.setenv("CODASMITH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(timing, "_copy_rate", lambda: 4e12)
    monkeypatch.setattr(timing, "roofline_ms", lambda *a: 1e-9)
    monkeypatch.setattr(timing, "BUDGET_S", 0.05)
    monkeypatch.setattr(timing, "WARM_S", 0.0)
    monkeypatch.setattr("codasmith.gate.tune.MOST_SETS", 2)
    monkeypatch.setattr(stopwatch, "repetitions", lambda *a: 1)
    monkeypatch.setattr(numerics, "DRAWN", 0)
    monkeypatch.setattr(canary, "probe", lambda: 0.2)
    monkeypatch.setattr(baselines, "recorded", lambda calls: lambda times: [c() for _ in range(times) for c in calls])

    def judge(name, change=None, **changes):
        task = load_task(name)
        _, graphs = read_program(task, source_of(name), "closed")
        arena = Arena(2**26, torch.device("cpu"))
        runner = HostRunner(arena, task, graphs)
        candidate = [
            Object(f"{stage}-{schedule.name}", stage, made.signature, stage)
            for stage, part in task.parts.items()
            for schedule in SCHEDULES[:2]
            for made in [generate(graphs[stage], frame_of(part, "bf16"), schedule)]
        ]
        bare = [Object(f"bare-{s.schedule.name}", "bare", s) for _, s in gate.pipeline.bare_kernels(task, "bf16")]
        job = Job(
            **{
                **{"task": task, "storage": "bf16", "candidate": candidate, "bare": bare, "rounds": 3, "seed": 5},
                **{"timed": [Workload(sizes=SIZES[name])], "checked": task.correctness_workloads()[:3]},
                **{"compile_baseline": False, "graph": None, "say": lambda *_: None, **changes},
            }
        )
        if change:
            change(runner)
        referee = Referee.__new__(Referee)
        referee.arena, referee.environment = arena, {"gpu": "NVIDIA H200"}
        referee.runners = Mock(current=runner, noted=lambda stage: stage, stage=lambda key, path: path)
        return referee.judge(job, hostile=False), job, runner

    return judge


@pytest.mark.parametrize("name", SIZES)
def test_a_program_is_tuned_checked_and_timed_as_one(judged, name):
    stages, job, runner = judged(name)
    assert [(s.stage, s.outcome) for s in stages] == [(n, "passed") for n in ("tune", "numerics", "guards", "timing")]
    tune, numerics, guards, timed = stages
    parts = list(job.task.parts)
    assert {key.partition(".")[0] for key in tune.data["gated"]} == set(parts)
    assert all(" " in row["schedule"] for row in numerics.data["workloads"]) and 0 < numerics.data["worst"] <= 1
    assert set(guards.data["sensitive"]) == {n for n, t in job.task.tensors.items() if t.dimensions}
    (row,) = timed.data["workloads"]
    times = row["milliseconds"]
    best = [min(v for n, v in times.items() if n.startswith(f"{p}: ")) for p in parts]
    assert row["bare"] in ("bare products", "cublas") and times["bare products"] == pytest.approx(sum(best), rel=0.5)
    assert row["tax"]["value"] > 0 and row["over_eager"]["value"] > 0
    assert set(runner.launched) == {*parts, "bare"}
    assert job.candidate[0].schedule.startswith(f"{parts[0]} 128x")


def test_a_kernel_of_one_stage_that_is_wrong_refuses_the_program(judged):
    def wrong(runner):
        right = runner.compute

        def compute(stage, inputs, outputs, workspace):
            right(stage, inputs, outputs, workspace)
            if stage == "down":
                outputs["y"][-1, -1] += 1.0

        runner.compute = compute

    stages, *_ = judged("mlp_swiglu", wrong)
    assert stages[-1].finding.code == "wrong-values" and stages[-1].finding.output == "y"


def test_a_write_beyond_what_passes_between_stages_is_seen(judged):
    def wrong(runner):
        right = runner.compute

        def compute(stage, inputs, outputs, workspace):
            right(stage, inputs, outputs, workspace)
            if stage == "up":
                end = outputs["o"].storage_offset() * 2 + outputs["o"].numel() * 2
                runner.view.block[end + 3] = 0

        runner.compute = compute

    stages, *_ = judged("mlp_swiglu", wrong)
    assert stages[-1].finding.code == "guard-out-of-bounds" and "beyond o" in stages[-1].finding.message
