"""What holds the runner, tried on the host; and how the referee replaces it."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from codasmith.gate import contain, referee, runners
from codasmith.gate.job import NotAlone
from codasmith.gate.pipe import ChildFailed
from codasmith.gate.referee import RunnerLost, judge_twice
from codasmith.gate.remedies import BY_CODE
from codasmith.gate.runners import Runners
from codasmith.gate.verdict import Finding, StageResult
from codasmith.templates import landlock, sandbox, syscalls

whole = pytest.mark.skipif(
    not landlock.version() or bool(syscalls.available()), reason="needs a kernel with Landlock, and libseccomp"
)

INSIDE = """
import json, os, subprocess, socket, sys, threading
from pathlib import Path
import torch
from codasmith.gate import contain
from codasmith.templates import syscalls

base, secret = Path(sys.argv[1]), Path(sys.argv[2])
syscalls.available()
objects, scratch = contain.folders(base)
(objects / "k.so").write_bytes(b"object")
started = threading.Event(); ended = threading.Event(); late = {}

def before():  # a thread of a driver's, older than the filter
    started.set(); ended.wait()
    try:
        socket.socket(); late["socket"] = "done"
    except OSError:
        late["socket"] = "refused"

thread = threading.Thread(target=before); thread.start(); started.wait()
held = contain.seal(base, "whole", contain.enter(base, "whole"))
found = {}

def attempt(name, action):
    try:
        action(); found[name] = "done"
    except BaseException:
        found[name] = "refused"

attempt("compile a row kernel", lambda: subprocess.run(["gcc", "--version"], check=True, capture_output=True))
held = contain.alone(held)
ended.set(); thread.join(); found["socket of an older thread"] = late["socket"]
attempt("compute", lambda: torch.ones(512, 512) @ torch.ones(512, 512))
attempt("start a thread", lambda: threading.Thread(target=int).start())
attempt("read an object", lambda: (objects / "k.so").read_bytes())
attempt("write in scratch", lambda: (scratch / "x").write_text("x"))
attempt("read /proc/self/maps", lambda: Path("/proc/self/maps").read_text())
attempt("write an object", lambda: (objects / "k.so").write_bytes(b"another"))
attempt("read a secret", lambda: secret.read_text())
KEPT = Path(contain.__file__).parent.parent / "verified_kernels"
attempt("read the records", lambda: (KEPT / "record.py").read_bytes())
attempt("read the environment of the parent", lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes())
attempt("open a socket", socket.socket)
attempt("run a program", lambda: subprocess.run(["/bin/true"]))
attempt("fork", os.fork)
attempt("kill the parent", lambda: os.kill(os.getppid(), 9))
print(json.dumps({"held": held, "found": found}), flush=True)
os._exit(0)
"""
ALLOWED = {"compute", "start a thread", "read an object", "write in scratch", "read /proc/self/maps"}
BEFORE_ALONE = {"compile a row kernel"}


@whole
def test_a_contained_runner_computes_and_reaches_nothing_else(tmp_path):
    base, secret = tmp_path / "base", tmp_path / "secret"
    base.mkdir()
    secret.write_text("a secret")
    done = subprocess.run(
        [sys.executable, "-P", "-c", INSIDE, str(base), str(secret)],
        capture_output=True, text=True, timeout=120, env=sandbox.environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert {name for name, what in answer["found"].items() if what == "done"} == ALLOWED | BEFORE_ALONE
    assert answer["held"] == dict.fromkeys(contain.ASKED, True)


@whole
def test_what_would_be_in_force_is_found_by_trying():
    assert contain.in_force() == dict.fromkeys(contain.ASKED, True)


def test_less_than_asked_is_named_but_not_what_the_closed_tier_needs_not():
    held = dict.fromkeys(contain.ASKED, True) | {"files": "the kernel has no Landlock", "others": contain.GENERATED}
    assert contain.lacking(held) == ["files (the kernel has no Landlock)"]
    assert len(contain.lacking({})) == len(contain.ASKED)


# --- replacing it -----------------------------------------------------------------------------------

FAKE = """
import json, os, signal, sys, time
time.sleep(float(os.environ.get("LANG", "0") or 0))  # what imports take
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    c = json.loads(line)
    n = c["number"]
    if c["op"] == "attach":
        if c["way"] == "whole" and os.environ.get("TZ") == "no whole":
            print(json.dumps({"number": n, "ok": False, "error": "CUDA did not start"}), flush=True); continue
        held = {"files": True if c["way"] == "whole" else "late"}
        print(json.dumps({"number": n, "ok": True, "held": held, "folder": c["folder"]}), flush=True); continue
    if c["op"] == "crash": os.abort()
    if c["op"] == "hang": time.sleep(3600)
    print(json.dumps({"number": n, "ok": True, "held": {}, "pid": os.getpid()}), flush=True)
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    (tmp_path / "fake_runner.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LANG", "0")
    monkeypatch.setattr(runners, "MODULE", "fake_runner")
    monkeypatch.setattr(runners, "LIMIT_S", 2.0)
    block = types.SimpleNamespace(numel=lambda: 1)
    held = []

    def make():
        held.append(Runners(types.SimpleNamespace(handle=lambda: [], block=block)))
        return held[-1]

    yield make
    for one in held:
        one.close()


@pytest.mark.parametrize(("trap", "code"), [("crash", "crash"), ("hang", "hang")])
def test_a_lost_runner_is_replaced_by_one_that_has_imported_already(made, monkeypatch, trap, code):
    monkeypatch.setenv("LANG", "2")
    found = made()
    found.begin(hostile=False)
    before = found.current.call("who")["pid"]
    folder = found._folder
    time.sleep(2.5)  # the next one imports meanwhile
    with pytest.raises(ChildFailed) as caught:
        found.current.call(trap)
    assert caught.value.code == code
    with pytest.raises(ChildFailed, match="ended"):
        _ = found.current  # nothing takes its place within the job
    began = time.monotonic()
    found.begin(hostile=True)
    assert found.current.call("who")["pid"] != before
    assert time.monotonic() - began < 1.8
    assert not folder.exists() and found._folder.exists()


def test_a_driver_that_does_not_start_contained_gets_a_weaker_way_and_it_is_said(made, monkeypatch):
    monkeypatch.setenv("TZ", "no whole")
    found = made()
    found.begin(hostile=False)
    assert found.held == {"files": "late"} and found._way == "late"
    stage = found.noted(StageResult(stage="tune", outcome="passed", note="128x128"))
    assert "files (late)" in stage.data["warning"] and stage.note.startswith("128x128; the runner lacks files")


def test_a_way_that_worked_is_never_given_up_for_a_weaker_one(made, monkeypatch):
    found = made()
    found.begin(hostile=False)
    monkeypatch.setenv("TZ", "no whole")
    found.close()
    found._next = None
    with pytest.raises(ChildFailed):
        found.begin(hostile=False)


def test_objects_are_laid_where_only_this_runner_reads_them(made, tmp_path):
    (tmp_path / "kernel.so").write_bytes(b"object")
    found = made()
    found.begin(hostile=False)
    staged = found.stage("abc", str(tmp_path / "kernel.so"))
    assert staged.endswith("/objects/abc.so") and staged.startswith(str(found._folder))
    # Laid again for the next candidate, a file that the runner has mapped must not change under it.
    with mmap.mmap(os.open(staged, os.O_RDONLY), 0, prot=mmap.PROT_READ) as mapped:
        (tmp_path / "kernel.so").write_bytes(b"")
        assert found.stage("abc", str(tmp_path / "kernel.so")) == staged
        assert mapped[:] == b"object"
    found.drop()
    assert not Path(staged).exists()


# --- whose fault it is --------------------------------------------------------------------------------


class Judge:
    """A referee that loses its runner as often as it is told."""

    def __init__(self, *failures):
        self.failures, self.jobs = list(failures), []

    def judge(self, job, *, hostile):
        self.jobs.append((job, hostile))
        if self.failures:
            failure = self.failures.pop(0)
            raise failure if isinstance(failure, NotAlone) else RunnerLost("numerics", "the stage numerics", failure)
        return [StageResult(stage="tune", outcome="passed")]


@pytest.fixture
def jobs(monkeypatch):
    monkeypatch.setattr(
        referee,
        "_job",
        lambda command, say: types.SimpleNamespace(stages=[StageResult(stage="tune", outcome="passed")]),
    )
    return [], lambda *words: jobs_said.append(words)


jobs_said: list = []
KILLED = ChildFailed("the process was ended by signal SIGKILL", "crash")
MEMORY = ChildFailed("OutOfMemoryError: CUDA out of memory", "error")
ILLEGAL = ChildFailed("AcceleratorError: CUDA error: an illegal memory access was encountered", "error")


def test_a_runner_that_is_killed_once_is_no_fault_of_the_candidate(jobs):
    judge = Judge(KILLED)
    (stage,) = judge_twice(judge, {"tier": "closed"}, jobs[1])
    assert stage.outcome == "passed" and [hostile for _, hostile in judge.jobs] == [False, False]


@pytest.mark.parametrize(("error", "code"), [(KILLED, "runner-crashed"), (ILLEGAL, "illegal-access")])
def test_a_runner_that_is_lost_twice_is(jobs, error, code):
    stages = judge_twice(Judge(error, error), {"tier": "cutedsl"}, jobs[1])
    assert [s.outcome for s in stages] == ["passed", "failed"]
    assert stages[-1].stage == "numerics" and stages[-1].finding.code == code
    assert stages[-1].finding.remedy == BY_CODE.get(code, "")


def test_where_others_held_the_gpu_it_is_judged_once_more_and_never_the_candidates_fault(jobs):
    busy = NotAlone("others computed on this GPU")
    (stage,) = judge_twice(Judge(busy), {"tier": "closed"}, jobs[1])
    assert stage.outcome == "passed" and jobs_said[-1] == ("timing", "others computed on this GPU: once more")
    with pytest.raises(NotAlone):
        judge_twice(Judge(busy, busy), {"tier": "cutedsl"}, jobs[1])
    with pytest.raises(NotAlone):
        judge_twice(Judge(KILLED, busy), {"tier": "closed"}, jobs[1])


def test_a_gpu_without_memory_is_never_the_candidates_fault(jobs):
    with pytest.raises(RunnerLost):
        judge_twice(Judge(MEMORY, MEMORY), {"tier": "closed"}, jobs[1])


@pytest.mark.parametrize("code", BY_CODE)
def test_what_only_a_gpu_shows_comes_with_a_remedy(code):
    sources = "".join(path.read_text() for path in Path(referee.__file__).parent.glob("*.py"))
    assert sources.count(f'"{code}"') >= 2  # raised somewhere, beside the table
    finding = referee._failed(("numerics", "guards"), Finding(code=code, message="It is so.")).finding
    assert str(finding) == f"It is so. {BY_CODE[code]}"
    own = Finding(code=code, message="It is so.", remedy="Do this.")
    assert referee._failed(("timing",), own).finding.remedy == "Do this."


def test_a_runner_that_does_not_start_is_never_the_candidates_fault():
    class NoRunner:
        def begin(self, *, hostile):
            raise ChildFailed("RuntimeError: no CUDA device", "error")

        def drop(self):
            pass

    judge = object.__new__(referee.Referee)
    judge.runners = NoRunner()
    with pytest.raises(ChildFailed) as caught:
        judge.judge(types.SimpleNamespace(stages=[], bare=[], candidate=[]), hostile=False)
    assert not isinstance(caught.value, RunnerLost)


def test_a_job_that_says_nothing_of_its_tier_is_taken_for_hostile(jobs):
    judge = Judge()
    judge_twice(judge, {}, jobs[1])
    assert judge.jobs[0][1] is True
