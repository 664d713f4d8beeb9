"""The compile server: what callers see when jobs repeat, fail, or the server dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
from codasmith.gate.messages import explain
from codasmith.gate.pipeline import bare_kernels
from codasmith.tasks import load_task
from codasmith.templates import compile, server, servers
from codasmith.templates.compile import Compiler
from codasmith.templates.launch import Signature


@pytest.fixture
def job():
    return bare_kernels(load_task("rmsnorm_scale"), "bf16")[0]


def test_the_same_job_submitted_twice_is_built_once_and_answers_both(tmp_path, job):
    with Compiler(tmp_path) as compiler:
        first, second = compiler.submit(*job), compiler.submit(*job)
        assert first is second
        built = first.result(timeout=200)
        assert built.ok, built.error
        assert built.spill_bytes == 0
        assert built.stages is not None and built.stages >= 3
        again = compiler.submit(*job).result(timeout=5)
    assert again.cached and again.object == built.object
    assert isinstance(again.signature, Signature) and again.signature.symbol.startswith("codasmith_")


def test_source_that_does_not_compile_gives_its_line_and_no_object(tmp_path, job):
    source = job[0].replace('return {"D": acc', 'acc = acc.nothing\n    return {"D": acc')
    assert source != job[0]
    with Compiler(tmp_path) as compiler:
        built = compiler.submit(source, job[1]).result(timeout=200)
    assert not built.ok
    assert "nothing" in built.error
    assert built.line is not None and "nothing" in source.splitlines()[built.line - 1]


def test_a_server_that_dies_once_costs_its_jobs_nothing_but_time(tmp_path, job):
    with Compiler(tmp_path) as compiler:
        future = compiler.submit(*job)
        _kill_server(compiler)
        built = future.result(timeout=200)
    assert built.ok, built.error


def test_a_server_that_dies_twice_ends_its_jobs_with_a_reason(tmp_path, job):
    with Compiler(tmp_path) as compiler:
        future = compiler.submit(*job)
        first = _kill_server(compiler)
        for _ in range(500):
            if compiler.server not in (None, first):
                break
            time.sleep(0.01)
        _kill_server(compiler)
        built = future.result(timeout=60)
    assert not built.ok
    assert "SIGKILL" in built.error


def test_a_lost_server_is_replaced_by_one_that_has_imported_the_compiler(tmp_path, job):
    with Compiler(tmp_path, reserve=True) as compiler:
        assert compiler.submit(*job).result(timeout=200).ok
        spare = compiler._servers.next
        assert spare is not None and spare.pid != compiler.server.pid
        assert select.select([spare.stdout], [], [], 200)[0]  # it says when it is ready
        first = _kill_server(compiler)
        first.wait(5)
        again = bare_kernels(load_task("rmsnorm_scale"), "bf16")[1]
        assert compiler.submit(*again).result(timeout=200).ok
        assert compiler.server is spare
        third = compiler._servers.next
        assert third is not None and third.poll() is None
    assert spare.poll() is not None and third.poll() is not None  # none is left behind


def test_a_server_that_is_stopped_on_purpose_starts_no_other(tmp_path, job):
    compiler = Compiler(tmp_path)
    future = compiler.submit(*job)
    compiler.close()
    assert not future.result(timeout=60).ok
    assert compiler.server is None


def test_a_server_that_is_stopped_twice_was_still_stopped_on_purpose(monkeypatch):
    """Else its jobs, which it takes with it, start another while Python ends."""
    monkeypatch.setattr(
        servers, "_spawn", lambda: subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )
    made = servers.Servers(lambda process: None)
    first = made.start()
    made.stop()
    made.stop()
    first.stdout.close()
    assert first.poll() is not None and made.stopped is first


def _kill_server(compiler):
    process = compiler.server
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    return process


def test_a_full_disk_is_no_fault_of_the_source(tmp_path, job, monkeypatch):
    monkeypatch.setattr(compile.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with Compiler(tmp_path) as compiler:
        built = compiler.submit("import os\nos._exit(0)", job[1], tier="cutedsl").result(timeout=200)
    assert "No space left" in built.error
    assert explain(built.error).code == "environment"


def test_a_job_over_its_time_limit_is_stopped(tmp_path, job):
    with Compiler(tmp_path) as compiler:
        built = compiler.submit(*job, limit_s=0.05).result(timeout=200)
    assert not built.ok
    assert "longer than" in built.error


def test_a_compilation_lets_the_gate_go_first():
    """While a kernel is timed others compile, and two processes of the gate must answer each other at once."""
    core = min(os.sched_getaffinity(0))
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        server.apart(core)
        os.write(write, json.dumps([os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    last = min(os.getpriority(os.PRIO_PROCESS, 0) + server.NICE, 19)  # the tests may run behind others already
    assert json.loads(os.read(read, 100)) == [last, [core]]
