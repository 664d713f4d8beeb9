"""An object that this machine cannot use is compiled anew, once, and answers a workload before it is used."""

import time
import warnings
from pathlib import Path

import pytest
import torch
from codasmith.tasks import Workload, draw
from codasmith.verified_kernels import FallbackWarning, OutsideDomain, RegistryError, admit, find, load, runner, store
from codasmith.verified_kernels.rebuild import rebuilt

SHIPPED = Path(store.__file__).parent / "kernels"


@pytest.fixture
def task(sample):
    return sample("sample_gated")


def values_of(task):
    return tuple(draw(task, Workload(sizes={"M": 5, "F": 8, "K": 16})).values())


@pytest.fixture
def unusable(fake_kernel, monkeypatch, tmp_path):
    """The objects of the store cannot be loaded; what is compiled anew can. Gives the compilations that there were."""
    kind, compiled = runner.template.Kernel, []

    class Kernel(kind):
        def __init__(self, path, signature):
            if "anew" not in path.name:
                raise OSError("invalid ELF header")
            super().__init__(path, signature)

    def made(entry, task, object):
        compiled.append(object.schedule)
        path = tmp_path / f"anew-{object.schedule}.so"
        path.write_bytes(b"\x7fELF anew")
        return object.model_copy(update={"sha256": "a" * 64}), path

    monkeypatch.setattr(runner.template, "Kernel", Kernel)
    monkeypatch.setattr(runner, "rebuilt", made)
    monkeypatch.setattr(runner, "possible", lambda entry: True)
    return compiled


def test_it_is_compiled_once_checked_and_said(unusable, fake_kernel, task, evaluation, homes):
    admit(evaluation(task), task, author="x")
    op = load(task, strict=True)
    with pytest.warns(
        FallbackWarning, match=r"cannot be loaded: invalid ELF header; compiled anew in 0\.\d s and checked"
    ):
        first = op(*values_of(task))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(op(*values_of(task))[0], first[0])
    assert len(unusable) == 1 and len(fake_kernel) == 3  # the check, and two calls
    assert len(list((homes / "cache/checked").glob("*.json"))) == 1


def test_what_answers_wrongly_is_not_used(unusable, task, evaluation, monkeypatch):
    right = runner.template.Kernel.launch
    monkeypatch.setattr(runner.template.Kernel, "launch", lambda s, v: tuple(1.5 * r for r in right(s, v)))
    admit(evaluation(task), task, author="x")
    with pytest.warns(FallbackWarning), pytest.raises(OutsideDomain, match="invalid ELF header"):
        load(task, strict=True)(*values_of(task))
    assert len(unusable) == 1


def test_changed_bytes_are_refused_and_not_mended(unusable, task, evaluation):
    entry = admit(evaluation(task), task, author="x")
    op = load(task, strict=True)
    for compiled in entry.record.objects:
        file = entry.path / compiled.file
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(OutsideDomain, match="was changed after admission"):
        op(*values_of(task))
    assert unusable == []


def test_without_a_graph_it_says_who_compiles(task, evaluation):
    entry = admit(evaluation(task), task, author="x")
    with pytest.raises(RegistryError, match="is compiled by the gate alone; verify it here"):
        rebuilt(entry, task, entry.record.objects[0])


@pytest.mark.slow
def test_a_shipped_kernel_is_compiled_and_kept(monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)
    entry, task = find("linear_rope"), load("linear_rope").task
    old = entry.record.objects[0]
    made, path = rebuilt(entry, task, old)
    assert path.read_bytes()[:4] == b"\x7fELF" and made.signature.schedule == old.signature.schedule
    assert made.signature.fields == old.signature.fields and made.signature.arguments == old.signature.arguments
    begun = time.monotonic()
    assert rebuilt(entry, task, old)[0] == made and time.monotonic() - begun < 2


@pytest.mark.gpu
def test_on_a_hopper_gpu_it_takes_less_than_ten_seconds_and_is_right(monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)
    kind, failed = runner.template.Kernel, []

    def first_fails(path, signature):
        if not failed:
            failed.append(path)
            raise OSError("no kernel image is available")
        return kind(path, signature)

    monkeypatch.setattr(runner.template, "Kernel", first_fails)
    op = load("linear_rope", strict=True)
    inputs = draw(op.task, Workload(sizes={"M": 1000, "N": 520, "K": 520}), "cuda")
    begun = time.monotonic()
    with pytest.warns(FallbackWarning, match="compiled anew"):
        y = op(**inputs)
    torch.cuda.synchronize()
    assert time.monotonic() - begun < 10
    truth = op.task.reference(**{k: v.double() for k, v in inputs.items()})["y"]
    plain = op.task.reference(**inputs)["y"]
    assert (y.double() - truth).abs().max() <= 2 * (plain.double() - truth).abs().max() + truth.abs().max() * 2**-8
