"""What is made of compute-sanitizer's lines, by a tool that says what a file tells it to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from codasmith.gate import sanitized, sanitizer
from codasmith.gate.pipeline import bare_kernels
from codasmith.gate.sanitizer import Item, both, hear, items, sanitize, together
from codasmith.gate.verdict import StageResult
from codasmith.tasks import load_task

SIGNATURE = bare_kernels(load_task("rmsnorm_scale"), "bf16")[0][1].model_copy(update={"symbol": "codasmith_abc"})

INVALID = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 2 bytes
=========     at kernel_cutlass_GemmSm90_0+0x1f20
=========     by thread (129,0,0) in block (0,0,0)
=========     Address 0x7f1e4a000a00 is out of bounds
"""

TOOL = """#!/usr/bin/env python3
import json, os, sys
script = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "script.json")))
check = sys.argv[sys.argv.index("--tool") + 1]
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1" and "SOME_API_KEY" not in os.environ
job = json.load(open(sys.argv[-1]))
for item in job["items"]:
    assert open(item["path"], "rb").read() == b"object"
    said = script.get(check, {}).get(item["name"], "")
    if said == "does not start":
        print("========= Error: Device not supported"); sys.exit(1)
    print("@@ begin " + item["name"], flush=True)
    if said.startswith("error "):
        print("@@ failed " + item["name"] + " " + said[6:]); sys.exit(3)
    if said:
        print(said, end="")
        if check == "memcheck":
            print("@@ failed " + item["name"] + " AcceleratorError: CUDA error: launch failure"); sys.exit(3)
    print("@@ end " + item["name"])
print("========= ERROR SUMMARY: 0 errors")
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Sets what the tool says, by check and kernel; the kernels are named."""
    program = tmp_path / "compute-sanitizer"
    program.write_text(TOOL)
    program.chmod(0o755)
    (tmp_path / "kernel.so").write_bytes(b"object")
    monkeypatch.setattr(sanitizer, "tool", lambda: str(program))
    monkeypatch.setenv("SOME_API_KEY", "secret")

    def use(*names, **script):
        (tmp_path / "script.json").write_text(json.dumps(script))
        return [Item(n, tmp_path / "kernel.so", SIGNATURE, ({"M": 16},)) for n in names]

    return use


def outcomes(results):
    return {name: r.outcome for name, r in results.items()}


def test_quiet_kernels_pass_in_one_run(tool):
    said = []
    results = sanitize(tool("a", "b"), say=said.append)
    assert outcomes(results) == {"a": "passed", "b": "passed"}
    assert said == ["a: memcheck quiet", "b: memcheck quiet"]


def test_a_finding_names_kernel_schedule_and_the_tools_line_and_the_rest_runs_on(tool):
    results = sanitize(tool("a", "b", "c", memcheck={"b": INVALID}))
    assert outcomes(results) == {"a": "passed", "b": "failed", "c": "passed"}
    finding = results["b"].finding
    assert finding.code == "sanitizer-memcheck"
    assert "codasmith_abc" in finding.message and SIGNATURE.schedule.name in finding.message
    assert "Invalid __global__ write of size 2 bytes at kernel_cutlass_GemmSm90_0+0x1f20" in finding.message


def test_an_absent_tool_is_recorded_and_never_silent(tool, monkeypatch):
    monkeypatch.setattr(sanitizer, "tool", lambda: "")
    (result,) = sanitize(tool("a")).values()
    assert result.outcome == "skipped" and "not run: compute-sanitizer is not installed" in result.note


def test_a_tool_that_does_not_work_here_says_why(tool):
    results = sanitize(tool("a", "b", memcheck={"a": "does not start"}))
    assert outcomes(results) == {"a": "skipped", "b": "skipped"}
    assert "Device not supported" in results["a"].note


@pytest.mark.parametrize("error", ["LaunchError: h has shape [1]", "OutOfMemoryError: CUDA error: out of memory"])
def test_what_is_no_fault_of_the_kernel_is_not_run(tool, error):
    results = sanitize(tool("a", "b", memcheck={"a": f"error {error}"}))
    assert outcomes(results) == {"a": "skipped", "b": "passed"} and error in results["a"].note


def test_no_time_left_is_said(tool):
    assert "the time was up" in sanitize(tool("a"), limit_s=0)["a"].note


def test_too_many_findings_end_it(tool):
    names = [f"k{i}" for i in range(sanitizer.MOST_BAD + 2)]
    results = sanitize(tool(*names, memcheck=dict.fromkeys(names, INVALID)))
    assert list(outcomes(results).values()).count("failed") == sanitizer.MOST_BAD
    assert "had findings" in results[names[-1]].note


RACE = "========= Error: Race reported between Write access at a and Read access at b [128 hazards]\n"


def test_races_count_only_where_the_template_has_none(tool):
    found = tool("bare", "a", "b", racecheck={"a": RACE})
    results = both(found[1:], found[:1])
    assert outcomes(results) == {"a": "failed", "b": "passed"}
    assert results["a"].finding.code == "sanitizer-racecheck" and "128 hazards" in results["a"].finding.message
    assert results["b"].note == "memcheck is quiet on 1 workloads; racecheck is quiet on 1 workloads"
    found = tool("bare", "a", racecheck={"a": RACE, "bare": RACE})
    (result,) = both(found[1:], found[:1]).values()
    assert result.outcome == "passed" and "racecheck not used" in result.note and "hazards" in result.note


def test_a_line_that_comes_late_belongs_to_the_kernel_before():
    heard = hear("@@ begin a\n@@ end a\n" + INVALID)
    assert list(heard.findings) == ["a"] and not heard.stray
    assert hear(INVALID).stray


def test_one_stage_of_several_objects_is_as_good_as_the_worst():
    quiet = StageResult(stage="sanitizer", outcome="passed", seconds=1.0, note="memcheck is quiet on 2 workloads")
    absent = StageResult(stage="sanitizer", outcome="skipped", note="not run: absent")
    assert together({"a": quiet, "b": quiet}).seconds == 2.0
    assert together({"a": quiet, "b": quiet}).note.startswith("2 objects: memcheck is quiet")
    assert together({"a": quiet, "b": absent}).note == "not run: absent"
    assert together({}).outcome == "skipped"


@pytest.mark.parametrize("name", ["rmsnorm_swiglu", "linear_lse", "linear_logprob", "linear_rope", "swiglu_bwd"])
def test_inputs_are_drawn_from_the_signature_alone(name, tmp_path):
    from codasmith.gate.frame import frame_of
    from codasmith.primitives import read
    from codasmith.templates.generate import generate
    from codasmith.templates.launch import bind
    from codasmith.templates.schedule import SCHEDULES
    from codasmith.verified_kernels import hand_written

    task = load_task(name)
    source = Path(next(iter(hand_written.__path__))) / f"{name}.py"
    graph = read(source.read_text(), list(task.operands.values()))
    signature = generate(graph, frame_of(task, "bf16"), SCHEDULES[0]).signature
    (item,) = items(name, task, "bf16", {"s": tmp_path}, {"s": signature}, "closed")
    assert item.name == f"{name}/s" and not item.hostile and len(item.sizes) == 2
    for sizes in item.sizes:
        given = sanitized.inputs(signature, sizes, "cpu")
        assert list(given) == list(signature.inputs)
        assert all(
            bind(signature, given)[symbol] == size for symbol, size in sizes.items() if symbol in bind(signature, given)
        )
        assert all(
            torch.isfinite(v).all() for v in given.values() if isinstance(v, torch.Tensor) and v.is_floating_point()
        )


def test_judgements_that_passed_gain_the_stage_and_one_with_a_finding_is_refused(tool, tmp_path):
    from codasmith.gate import sanitize as over_all
    from codasmith.gate.pipeline import Evaluation
    from codasmith.gate.verdict import Verdict

    def judged(status):
        stages = (StageResult(stage="sanitizer", outcome="skipped", note="not run here"),)
        verdict = Verdict(task="rmsnorm_scale", task_digest="", candidate_digest="", status=status, stages=stages)
        objects = {"128x128": tmp_path / "kernel.so"} if status == "passed" else {}
        signatures = dict.fromkeys(objects, SIGNATURE)
        return Evaluation(verdict, "", load_task("rmsnorm_scale"), "closed", "bf16", objects, signatures)

    tool(memcheck={"2:rmsnorm_scale/128x128": INVALID})
    quiet, refused, bad = over_all([judged("passed"), judged("refused"), judged("passed")])
    assert quiet.verdict.status == "passed" and quiet.objects
    assert [s.outcome for s in quiet.verdict.stages] == ["passed"]
    assert refused.verdict.stages[-1].outcome == "skipped"
    assert bad.verdict.status == "refused" and not bad.objects
    assert bad.verdict.finding.code == "sanitizer-memcheck"
