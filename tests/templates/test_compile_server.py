"""The compile server: what callers see when jobs repeat, fail, or the server dies."""

from __future__ import annotations

import os
import signal

import pytest
from codasmith.gate.pipeline import bare_kernels
from codasmith.tasks import load_task
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


def test_a_server_that_dies_ends_its_jobs_with_a_reason(tmp_path, job):
    with Compiler(tmp_path) as compiler:
        future = compiler.submit(*job)
        assert compiler._process is not None
        os.kill(compiler._process.pid, signal.SIGKILL)
        built = future.result(timeout=60)
    assert not built.ok
    assert "SIGKILL" in built.error


def test_a_job_over_its_time_limit_is_stopped(tmp_path, job):
    with Compiler(tmp_path) as compiler:
        built = compiler.submit(*job, limit_s=0.05).result(timeout=200)
    assert not built.ok
    assert "longer than" in built.error
