"""On a machine that a record does not know, a kernel answers one workload first; what fails is set aside."""

import json
import warnings

import pytest
import torch
from codasmith.tasks import Workload, draw
from codasmith.verified_kernels import FallbackWarning, OutsideDomain, admit, load, recheck
from codasmith.verified_kernels.record import OutputError, WorkloadEvidence

OTHER = {"gpu": "NVIDIA H100", "driver": "580.159.04", "cuda": "13.0"}


@pytest.fixture
def task(sample):
    return sample("sample_gated")


@pytest.fixture
def elsewhere(monkeypatch):
    monkeypatch.setattr(recheck, "surroundings", lambda device: OTHER)


@pytest.fixture
def markers(homes):
    return lambda: sorted((homes / "cache/checked").glob("*.json"))


def wrong(monkeypatch, where=lambda values: True):
    """Make the fake kernel's answers wrong by a third where asked."""
    from codasmith.verified_kernels import runner

    right = runner.template.Kernel.launch

    def launch(self, values):
        return tuple(v * 1.3 if where(values) else v for v in right(self, values))

    monkeypatch.setattr(runner.template.Kernel, "launch", launch)


def values_of(task, m=5):
    return tuple(draw(task, Workload(sizes={"M": m, "F": 8, "K": 16})).values())


@pytest.mark.parametrize(
    ("here", "checks"),
    [
        ({"gpu": "NVIDIA H200", "driver": "580.159.04", "cuda": "13.9"}, 0),
        ({"gpu": "NVIDIA H200", "driver": "580.159.04", "cuda": "12.9"}, 1),
        ({"gpu": "NVIDIA H200", "driver": "590.1", "cuda": "13.0"}, 1),
        ({"gpu": "NVIDIA H100", "driver": "580.159.04", "cuda": "13.0"}, 1),
    ],
)
def test_another_gpu_driver_or_cuda_major_is_checked_once(fake_kernel, task, evaluation, monkeypatch, here, checks):
    monkeypatch.setattr(recheck, "surroundings", lambda device: here)
    admit(evaluation(task), task, author="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m in (5, 6):
            load(task, strict=True)(*values_of(task, m))  # each load has a runner of its own
    assert len(fake_kernel) == 2 + checks


def test_wrong_values_are_set_aside_with_a_sentence(fake_kernel, task, evaluation, elsewhere, markers, monkeypatch):
    entry = admit(evaluation(task), task, author="x")
    wrong(monkeypatch)
    op = load(task)
    with pytest.warns(FallbackWarning) as caught:
        result = op(*values_of(task))
    texts = [str(w.message) for w in caught]
    assert sum(entry.name in t and "NVIDIA H100, driver 580.159.04, CUDA 13.0" in t for t in texts) >= 1
    assert any("o: the largest error is" in t and "verify it here, or remove" in t for t in texts)
    assert torch.equal(result[0], task.reference(*values_of(task))["o"].to(torch.bfloat16))
    assert len(markers()) == 2 and all(json.loads(m.read_text())["failed"] for m in markers())  # both schedules
    launches = len(fake_kernel)
    with pytest.raises(OutsideDomain, match=r"failed a check there .*remove .*json to try it again"):
        load(task, strict=True)(*values_of(task))
    assert len(fake_kernel) == launches  # the kept result answers


def test_a_removed_marker_lets_it_try_again(fake_kernel, task, evaluation, elsewhere, markers, monkeypatch):
    admit(evaluation(task), task, author="x")
    with monkeypatch.context() as patch:
        wrong(patch)
        with pytest.warns(FallbackWarning):
            load(task)(*values_of(task))
    for marker in markers():
        marker.unlink()
    assert load(task, strict=True).why_not(*values_of(task)) is None


def test_a_launch_that_fails_is_set_aside(fake_kernel, task, evaluation, elsewhere, monkeypatch):
    from codasmith.verified_kernels import runner

    def launch(self, values):
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    monkeypatch.setattr(runner.template.Kernel, "launch", launch)
    admit(evaluation(task), task, author="x")
    with pytest.warns(FallbackWarning, match="no kernel image is available on M"):
        load(task)(*values_of(task))


def test_a_check_that_ended_its_process_counts_as_failed(fake_kernel, task, evaluation, elsewhere, markers):
    admit(evaluation(task), task, author="x")
    load(task)(*values_of(task))
    (marker,) = markers()
    marker.write_text(json.dumps({"finished": False, "failed": ""}))
    with pytest.warns(FallbackWarning, match="its check ended the process"):
        assert load(task).why_not(*values_of(task)) is None  # the second schedule takes over
    assert json.loads(marker.read_text())["failed"]


def test_an_interrupted_check_is_not_held_against_it(fake_kernel, task, evaluation, elsewhere, markers, monkeypatch):
    from codasmith.verified_kernels import runner

    admit(evaluation(task), task, author="x")
    with monkeypatch.context() as patch:
        patch.setattr(runner.template.Kernel, "launch", lambda self, values: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            load(task)(*values_of(task))
    assert markers() == []
    assert load(task, strict=True).why_not(*values_of(task)) is None


def test_a_damaged_marker_is_written_anew(fake_kernel, task, evaluation, elsewhere, markers):
    admit(evaluation(task), task, author="x")
    load(task)(*values_of(task))
    (marker,) = markers()
    marker.write_text("{")
    assert load(task, strict=True).why_not(*values_of(task)) is None
    assert json.loads(marker.read_text())["finished"] is True


def test_an_accumulating_kernel_is_checked_too(fake_kernel, sample, evaluation, elsewhere, monkeypatch):
    task = sample("sample_accumulate")
    admit(evaluation(task), task, author="x")
    values = tuple(draw(task, Workload(sizes={"M": 5, "N": 24, "K": 16})).values())
    load(task, strict=True)(*values)
    assert len(fake_kernel) == 2
    assert recheck._driver() != ""


def test_the_smallest_ordinary_workload_of_the_schedule_is_taken(task, evaluation):
    entry = admit(evaluation(task), task, author="x")
    (evidence,) = entry.record.evidence
    compiled, other = evidence.objects
    assert recheck.workload_of(task, compiled, evidence) == task.correctness_workloads()[0]

    def seen(m, family, schedule):
        numbers = dict.fromkeys(OutputError.model_fields, 1.0) | {"schedule": schedule, "output": "o"}
        sizes = {"M": m, "F": 8, "K": 16}
        return WorkloadEvidence(workload=Workload(sizes=sizes, family=family), errors=(OutputError(**numbers),))

    rows = [(1, "integers", compiled), (64, "normal", compiled), (32, "normal", compiled), (16, "normal", other)]
    evidence = evidence.model_copy(update={"workloads": tuple(seen(m, f, o.schedule) for m, f, o in rows)})
    assert recheck.workload_of(task, compiled, evidence).sizes["M"] == 32


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan 1 00:00:00 UTC 2030\nGCC\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
    ],
)
def test_the_driver_is_read_without_a_process(tmp_path, monkeypatch, text):
    (tmp_path / "version").write_text(text)
    monkeypatch.setattr(recheck, "DRIVER_FILE", tmp_path / "version")
    recheck._driver.cache_clear()
    try:
        assert recheck._driver() == "580.159.04"
    finally:
        recheck._driver.cache_clear()
