"""The third stage: which kernels go on, and what a failed compilation says. A few real compilations."""

import dataclasses
from concurrent.futures import Future
from importlib.resources import files

import pytest
from codasmith.gate import compile as compile_module
from codasmith.gate.compile import SPILL_LIMIT, compile_stage
from codasmith.gate.read import read_stage
from codasmith.tasks import Tensor, catalogue, task
from codasmith.templates.compile import Compiled, Compiler
from codasmith.templates.schedule import SCHEDULES

TASKS = catalogue()
SOURCE = (files("codasmith.verified_kernels.hand_written") / "linear_bias.py").read_text()
FAILED = Compiled("", 0.5, error="ValueError: Expected size in shape to be strictly positive, but got 0")


class Scripted:
    """Answers as the compile server would."""

    def __init__(self, tmp_path, **answers):
        self.object, self.answers, self.jobs = tmp_path / "kernel.so", answers, []

    def submit(self, source, signature, *, tier):
        self.jobs.append((source, signature, tier))
        name = signature.schedule.name
        good = Compiled(name, 1.0, self.object, signature, spill_bytes=0, stages=4)
        answer = self.answers.get(name.replace("-", "_"), self.answers.get("all", {}))
        future = Future()
        if isinstance(answer, Compiled):
            future.set_result(dataclasses.replace(answer, schedule=name))
        else:
            future.set_result(dataclasses.replace(good, **answer))
        return future


FIRST, SECOND, THIRD = SCHEDULES[:3]


def key(schedule):
    return schedule.name.replace("-", "_")


def run(compiler, tier="closed", source=SOURCE, of="linear_bias", **options):
    graph = read_stage(TASKS[of], source, "closed")[1] if tier == "closed" else None
    options = {"storage": "bf16", "schedules": SCHEDULES[:3], **options}
    return compile_stage(TASKS[of], graph, source, tier=tier, compiler=compiler, **options)


def test_every_schedule_is_submitted_with_the_templates_source(tmp_path):
    compiler, said = Scripted(tmp_path), []
    result, kept = run(compiler, progress=lambda stage, line: said.append((stage, line)))
    assert [job[1].schedule for job in compiler.jobs] == list(SCHEDULES[:3])
    assert all("Generated from an epilogue's graph" in source and tier == "closed" for source, _, tier in compiler.jobs)
    assert result.stage == "compile" and result.outcome == "passed" and result.note == "3 of 3 schedules, no spills"
    assert [c.schedule for c in kept] == [s.name for s in SCHEDULES[:3]]
    assert result.data["schedules"][FIRST.name] == {
        "ok": True,
        "kept": True,
        "seconds": 1.0,
        "spill_bytes": 0,
        "stages": 4,
        "cached": False,
    }
    assert len(said) == 3 and all(stage == "compile" for stage, _ in said) and "3 of 3" in said[-1][1]


def test_the_open_tier_compiles_the_candidates_own_source(tmp_path):
    compiler = Scripted(tmp_path)
    run(compiler, "cutedsl", "the source", storage="fp16")
    source, signature, tier = compiler.jobs[0]
    assert (source, tier, signature.storage, signature.arguments) == ("the source", "cutedsl", "fp16", ())


def test_one_schedule_is_enough_and_the_others_are_noted(tmp_path):
    result, kept = run(Scripted(tmp_path, all=FAILED, **{key(SECOND): {"spill_bytes": 8}}))
    assert result.outcome == "passed" and [c.schedule for c in kept] == [SECOND.name]
    assert result.note == f"1 of 3 schedules, at least 8 bytes a thread spilled (on {SECOND.name})"
    other = result.data["schedules"][FIRST.name]
    assert not other["ok"] and not other["kept"] and "strictly positive" in other["why"]


def test_schedules_that_spill_heavily_go_where_others_do_not(tmp_path):
    spilling = {"spill_bytes": SPILL_LIMIT + 1}
    result, kept = run(Scripted(tmp_path, **{key(SECOND): spilling, key(THIRD): {"spill_bytes": SPILL_LIMIT}}))
    assert [c.schedule for c in kept] == [FIRST.name, THIRD.name]
    assert result.note == f"2 of 3 schedules, no spills on {FIRST.name}"
    assert result.data["schedules"][SECOND.name]["why"] == f"spills {SPILL_LIMIT + 1} bytes a thread"
    _, kept = run(Scripted(tmp_path, all=spilling))
    assert len(kept) == 3


def test_schedules_without_a_pipeline_go_where_others_have_one(tmp_path):
    result, kept = run(Scripted(tmp_path, **{key(FIRST): {"stages": 1}}))
    assert [c.schedule for c in kept] == [SECOND.name, THIRD.name]
    assert result.data["schedules"][FIRST.name]["why"] == "only 1 pipeline stage"
    assert len(run(Scripted(tmp_path, all={"stages": 1}))[1]) == 3


def test_too_many_tiles_are_the_candidates_affair_in_both_tiers(tmp_path):
    for tier in ("closed", "cutedsl"):
        result, kept = run(Scripted(tmp_path, all=FAILED), tier)
        assert result.outcome == "failed" and kept == [] and len(result.data["schedules"]) == 3
        assert result.finding.code == "shared-memory" and "fewer tiles" in result.finding.remedy
        assert result.finding.details["schedule"] == FIRST.name


def test_other_failures_of_generated_code_are_the_templates(tmp_path):
    broken = Compiled("", 0.5, error="NameError: name 'device' is not defined", line=31)
    closed = run(Scripted(tmp_path, all=broken))[0].finding
    assert closed.code == "template-bug" and "not of the candidate" in closed.remedy and closed.line is None
    opened = run(Scripted(tmp_path, all=broken), "cutedsl")[0].finding
    assert opened.code == "unknown-name" and opened.line == 31


def test_the_commonest_failure_is_reported(tmp_path):
    abort = Compiled("", 0.1, error="the compiler was ended by signal 6 (SIGABRT)", status=-6)
    scripted = Scripted(tmp_path, all=FAILED, **{key(FIRST): abort})
    assert run(scripted, "cutedsl")[0].finding.code == "shared-memory"


def test_a_broken_machine_is_not_the_candidates_fault(tmp_path):
    broken = Compiled(
        "", 0.1, error="RuntimeError: the linker 'gcc' was not found; install gcc or set CC to a C compiler"
    )
    assert run(Scripted(tmp_path, all=broken))[0].finding.code == "environment"


@pytest.mark.parametrize(
    "said",
    [
        "OSError: [Errno 28] No space left on device",
        "RuntimeError: linking failed: gemm.o: file format not recognized",
        "the compiler ended with status 1 and no report",
    ],
)
def test_a_child_that_ran_a_candidate_is_not_believed_when_it_blames_the_machine(tmp_path, monkeypatch, said):
    forged = Compiled("", 0.1, error=said, status=1)
    finding = run(Scripted(tmp_path, all=forged), "cutedsl")[0].finding
    assert finding.code == "compiler-error" and said[:40] in finding.message
    monkeypatch.setenv("CC", "no-such-linker")
    assert run(Scripted(tmp_path, all=forged), "cutedsl")[0].finding.code == "environment"


def test_what_a_machine_lacks_is_found_by_looking(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_module.importlib.util, "find_spec", lambda name: None if name == "quack" else 1)
    assert compile_module.machine_lacks(tmp_path) == "the package quack"
    monkeypatch.setattr(compile_module.importlib.util, "find_spec", lambda name: 1)
    monkeypatch.setattr(compile_module, "ROOM", 2**60)
    assert compile_module.machine_lacks(tmp_path) == f"room in {tmp_path}"
    monkeypatch.setattr(compile_module, "ROOM", 1)
    assert compile_module.machine_lacks(tmp_path) == ""


def test_what_the_template_cannot_run_is_refused_before_compiling(tmp_path):
    @task(
        gemm="x @ w.T",
        x=Tensor("M K"),
        w=Tensor("2F K", layout="pairs"),
        out={"o": Tensor("M F", "f32")},
    )
    def narrow(x, w):
        y = x @ w.T
        return {"o": y[:, ::2]}

    source = (
        "from codasmith.primitives import epilogue, unpack\n\n\n@epilogue\ndef f(acc):\n"
        '    even, odd = unpack(acc)\n    return {"o": even}\n'
    )
    compiler = Scripted(tmp_path)
    graph = read_stage(narrow, source, "closed")[1]
    result, kept = compile_stage(narrow, graph, source, tier="closed", storage="bf16", compiler=compiler)
    assert result.finding.code == "half-width-dtype" and kept == [] and compiler.jobs == []


# --- the real compiler -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    with Compiler(folder=tmp_path_factory.mktemp("objects")) as server:
        yield server


OPEN = """
import cutlass.cute as cute
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import RowVecLoad

MAIN = "y"


@gemm_epilogue(ops={"bias": RowVecLoad("bias")})
def epilogue(acc, bias):
    y = acc + bias
    %s
"""


@pytest.mark.slow
def test_a_hand_written_epilogue_compiles(compiler):
    schedule = SCHEDULES[0]
    result, kept = run(compiler, schedules=[schedule])
    assert result.outcome == "passed", result.finding
    assert result.note == "1 of 1 schedule, no spills"
    assert kept[0].schedule == schedule.name and kept[0].object.stat().st_size > 10_000
    assert result.data["schedules"][schedule.name]["stages"] >= 2
    again, _ = run(compiler, schedules=[schedule])
    assert again.data["schedules"][schedule.name]["cached"] and again.seconds < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "code", "line"),
    [
        ('return {"D": y if y > 0.0 else y * 0.1}', "control-flow", 12),
        ('return {"D": cute.math.gelu(y)}', "unknown-name", 12),
    ],
)
def test_mistakes_of_an_open_candidate_are_explained_at_its_line(compiler, statement, code, line):
    result, kept = run(compiler, "cutedsl", OPEN % statement, schedules=[SCHEDULES[0]])
    assert result.outcome == "failed" and kept == []
    found = result.finding
    assert (found.code, found.line) == (code, line) and found.remedy
    assert "/tmp" not in found.details["compiler"] and "objects" not in found.details["compiler"]
