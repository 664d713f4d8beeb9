"""A candidate compiled with less isolation than asked for: said in the stage's data and note, never silent."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from codasmith.gate.compile import compile_stage
from codasmith.gate.read import read_stage
from codasmith.tasks import load_task
from codasmith.templates.compile import Compiled
from codasmith.templates.sandbox import ASKED
from codasmith.templates.schedule import SCHEDULES

TASK = load_task("linear_bias")
CLOSED = 'from codasmith.primitives import epilogue\n\n\n@epilogue\ndef f(acc, bias):\n    return {"y": acc + bias}\n'
WHOLE = dict.fromkeys(ASKED, True)
LESS = WHOLE | {"files": "the kernel has no Landlock", "gpu": "the kernel has no Landlock"}


class Held:
    """A compile server whose children are held to what it is told."""

    def __init__(self, tmp_path, sandbox, **failure):
        self.made = {"object": tmp_path / "kernel.so", "spill_bytes": 0, "stages": 4, "sandbox": sandbox} | failure

    def submit(self, source, signature, *, tier):
        future = Future()
        future.set_result(Compiled(signature.schedule.name, 1.0, signature=signature, **self.made))
        return future


def stage(tmp_path, tier, sandbox, **failure):
    graph = read_stage(TASK, CLOSED, "closed")[1] if tier == "closed" else None
    compiler = Held(tmp_path, sandbox, **failure)
    options = {"tier": tier, "storage": "bf16", "schedules": SCHEDULES[:2], "compiler": compiler}
    return compile_stage(TASK, graph, CLOSED, **options)[0]


def test_what_was_in_force_is_kept_and_a_whole_sandbox_is_no_news(tmp_path):
    result = stage(tmp_path, "cutedsl", WHOLE)
    assert result.data["sandbox"] == WHOLE and "warning" not in result.data
    assert result.note == "2 of 2 schedules, no spills"


def test_an_open_candidate_compiled_with_less_is_marked(tmp_path):
    result = stage(tmp_path, "cutedsl", LESS)
    assert result.outcome == "passed" and result.note.endswith("; the sandbox lacks files, gpu")
    assert "files (the kernel has no Landlock)" in result.data["warning"]


def test_no_word_about_the_sandbox_is_no_sandbox(tmp_path):
    assert "the sandbox lacks files, network, gpu" in stage(tmp_path, "cutedsl", {}).note


def test_the_closed_tier_has_it_in_its_data_only(tmp_path):
    result = stage(tmp_path, "closed", LESS)
    assert "warning" in result.data and "sandbox" not in result.note


@pytest.mark.parametrize("line", [7, None])
def test_a_candidate_cannot_blame_the_machine(tmp_path, line):
    failure = {"object": None, "error": "ImportError: No module named 'torch'", "line": line}
    result = stage(tmp_path, "cutedsl", WHOLE, **failure)
    assert result.outcome == "failed" and result.finding.code == "compiler-error"


def test_a_machine_that_lacks_what_it_takes_is_to_blame(tmp_path, monkeypatch):
    monkeypatch.setattr("codasmith.gate.compile.shutil.which", lambda name: None)
    failure = {"object": None, "error": "RuntimeError: the linker 'gcc' was not found", "line": None}
    result = stage(tmp_path, "cutedsl", WHOLE, **failure)
    assert result.outcome == "failed" and result.finding.code == "environment"
