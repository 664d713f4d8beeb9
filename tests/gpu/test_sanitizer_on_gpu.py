"""compute-sanitizer on a GPU: quiet on honest kernels and the template, loud on one that writes beyond its tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
from codasmith import gate, verified_kernels
from codasmith.evals.attack_corpus import attacks
from codasmith.gate import sanitizer
from codasmith.gate.compile import compile_stage
from codasmith.gate.pipeline import evaluate, session
from codasmith.gate.sanitizer import items, sanitize
from codasmith.gate.sanitizing import _bare_items
from codasmith.tasks import Workload, load_task
from codasmith.templates.schedule import SCHEDULES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not sanitizer.tool(), reason="compute-sanitizer is not installed"),
]

HAND_WRITTEN = Path(verified_kernels.__file__).parent / "hand_written"


def judged(name, sizes):
    how = {"schedules": SCHEDULES[:2], "compile_baseline": False, "rounds": 9}
    workloads = [Workload(sizes=sizes)]
    return evaluate(load_task(name), (HAND_WRITTEN / f"{name}.py").read_text(), workloads=workloads, **how)


def test_honest_kernels_are_quiet_together_in_one_process():
    passed = [
        judged("rmsnorm_scale", {"M": 1024, "N": 1024, "K": 1024}),
        judged("linear_lse", {"M": 1024, "N": 1024, "K": 1024}),
        judged("rmsnorm_swiglu", {"M": 1024, "F": 512, "K": 1024}),
    ]
    assert [e.verdict.status for e in passed] == ["passed"] * 3
    for evaluation in gate.sanitize(passed):
        stage = evaluation.verdict.stages[-1]
        assert (stage.stage, stage.outcome) == ("sanitizer", "passed"), stage.finding or stage.note
        assert "memcheck is quiet" in stage.note


def test_the_bare_template_is_quiet():
    results = sanitize(_bare_items(judged("rmsnorm_scale", {"M": 1024, "N": 1024, "K": 1024})))
    assert results and all(r.outcome == "passed" for r in results.values()), [
        str(r.finding or r.note) for r in results.values()
    ]


def test_a_kernel_that_writes_beyond_its_output_is_found_with_its_line(tmp_path):
    (attack,) = attacks(["c9_beyond_the_end"])
    task = load_task(attack.task)
    stage, compiled = compile_stage(
        task, None, attack.source(tmp_path / "mark"), tier="cutedsl", storage="bf16",
        compiler=session().compiler, schedules=SCHEDULES[:1],
    )  # fmt: skip
    assert stage.outcome == "passed", stage.finding
    objects = {c.schedule: c.object for c in compiled}
    signatures = {c.schedule: c.signature for c in compiled}
    (result,) = sanitize(items("bad", task, "bf16", objects, signatures, "cutedsl")).values()
    assert result.outcome == "failed", result.note
    assert "Invalid __global__ write" in result.finding.message and SCHEDULES[0].name in result.finding.message
