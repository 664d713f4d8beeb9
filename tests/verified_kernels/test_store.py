"""The store: what is admitted comes back byte for byte, and what is damaged is named and skipped."""

import contextlib
import json
import lzma
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from pathlib import Path

import pytest
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import (
    AdmissionError,
    RegistryError,
    admit,
    find,
    list_entries,
    load,
    problems,
    stores,
)
from codasmith.verified_kernels import store as store_module
from codasmith.verified_kernels.record import Record
from codasmith.verified_kernels.store import read_entry, scan


@pytest.fixture
def task(sample):
    return sample("sample_select")


def test_an_admitted_kernel_comes_back_as_it_was(task, evaluation):
    given = evaluation(task, source="def kernel(acc): ...\n")
    entry = admit(given, task, author={"name": "anthropic:NAME", "prompt_digest": "ab" * 32, "journal": "j1"})
    found = find(task.name)
    assert found == entry and found.source == "def kernel(acc): ...\n"
    assert found.record == Record.loads(found.record.dumps(), "text")
    assert found.record.author.name == "anthropic:NAME" and found.record.of("bf16").environment["gpu"] == "NVIDIA H200"
    libraries = {o.schedule: found.library(o) for o in found.record.objects}
    assert libraries == {name: path.read_bytes() for name, path in given.objects.items()}
    assert {o.schedule: o.signature for o in found.record.objects} == given.signatures
    assert find(f"{task.name}/{entry.record.digest[:8]}") == entry


def test_the_digest_covers_source_and_task_but_not_the_dtype(task, sample, evaluation):
    first = admit(evaluation(task), task, author="hand-written")
    other = admit(evaluation(task, source="# another\n"), task, author="hand-written")
    same = admit(evaluation(task, storage="fp16"), task, author="hand-written")
    assert first.record.digest == same.record.digest != other.record.digest
    assert same.record.storages == ("bf16", "fp16") and len(same.record.objects) == 4
    assert repr(same) == f"<entry {same.name}, closed, bf16 and fp16>"
    elsewhere = admit(evaluation(sample("sample_alias")), sample("sample_alias"), author="hand-written")
    assert elsewhere.record.digest != first.record.digest


def test_admitting_again_replaces_the_evidence_and_removes_old_objects(task, evaluation):
    entry = admit(evaluation(task), task, author="hand-written")
    again = admit(evaluation(task, body=b"recompiled", timing={"tax": 1.01}, schedules=SCHEDULES[:1]), task, author="x")
    assert again.path == entry.path and again.record.tax == 1.01
    assert {p.name for p in again.path.glob("*.xz")} == {o.file for o in again.record.objects}
    assert len(again.record.objects) == 1 and again.library(again.record.objects[0]).endswith(b"recompiled")


def test_the_best_entry_comes_first(task, evaluation):
    admit(evaluation(task, source="# slow\n", timing={"tax": 1.2}), task, author="x")
    admit(evaluation(task, source="# quick\n", timing={"tax": 1.01}), task, author="x")
    admit(evaluation(task, source="# untimed\n", timing={}), task, author="x")
    assert [e.source for e in scan(task.name)[0]] == ["# quick\n", "# slow\n", "# untimed\n"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"status": "checked"}, 'its verdict is "checked"'),
        ({"status": "refused"}, 'its verdict is "refused"'),
        ({"status": "failed"}, 'its verdict is "failed"'),
        ({"environment": {}}, "names no GPU"),
        ({"stages": ()}, "no passed numerics stage"),
    ],
)
def test_only_a_verdict_of_a_real_gpu_admits(task, evaluation, changes, says):
    with pytest.raises(AdmissionError, match=says):
        admit(evaluation(task, **changes), task, author="x")
    assert scan(task.name)[0] == []


def test_a_verdict_of_another_task_or_without_objects_does_not_admit(task, sample, evaluation):
    with pytest.raises(AdmissionError, match="another version of the task"):
        admit(evaluation(sample("sample_alias")), task, author="x")
    with pytest.raises(AdmissionError, match="no compiled object"):
        admit(evaluation(task, schedules=()), task, author="x")


def _flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("file", ["kernel.py", "task.py", "record.json", "object"])
def test_a_changed_byte_is_noticed_and_the_next_entry_used(task, evaluation, file):
    admit(evaluation(task, source="# second\n", timing={"tax": 1.2}), task, author="x")
    first = admit(evaluation(task, timing={"tax": 1.0}), task, author="x")
    path = first.path / (first.record.objects[0].file if file == "object" else file)
    _flip(path, path.stat().st_size // 2)
    entries, found = scan(task.name)
    assert [e.source for e in entries] == ["# second\n"]
    assert len(found) == 1 and str(path) in found[0] and "verify the kernel again" in found[0]
    assert problems(task.name) == found
    with pytest.warns(UserWarning, match=r"skipped an entry"):
        assert load(task).entry == entries[0]


def test_every_byte_of_a_record_is_covered_by_its_seal(task, evaluation):
    path = admit(evaluation(task), task, author="x").path / "record.json"
    whole = path.read_bytes()
    fields = json.loads(whole)
    assert fields["evidence"][0]["tax"] == 1.05
    path.write_bytes(whole.replace(b"1.05", b"1.04"))
    with pytest.raises(RegistryError, match="was changed"):
        read_entry(path.parent)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff\xfe", b'{"seal": 1}', b"null"])
def test_a_file_that_is_no_record_is_one_sentence(task, evaluation, text):
    path = admit(evaluation(task), task, author="x").path / "record.json"
    path.write_bytes(text)
    with pytest.raises(RegistryError) as error:
        read_entry(path.parent)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_truncated_object_and_a_missing_one_are_named(task, evaluation):
    entry = admit(evaluation(task), task, author="x")
    path = entry.path / entry.record.objects[1].file
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RegistryError, match=path.name):
        read_entry(entry.path)
    path.unlink()
    with pytest.raises(RegistryError, match=f"{path.name} cannot be read"):
        read_entry(entry.path)


def test_an_object_of_other_content_is_refused_even_when_its_package_is_whole(task, evaluation):
    entry = admit(evaluation(task), task, author="x")
    compiled = entry.record.objects[0]
    data = lzma.compress(b"another library")
    (entry.path / compiled.file).write_bytes(data)
    forged = compiled.model_copy(update={"packed_sha256": store_module._sha256(data)})
    with pytest.raises(RegistryError, match="another library"):
        entry.library(forged)


def test_a_damaged_entry_is_healed_by_admitting_again(task, evaluation):
    entry = admit(evaluation(task), task, author="x")
    _flip(entry.path / "record.json", 40)
    assert scan(task.name)[0] == []
    assert admit(evaluation(task), task, author="x").path == entry.path
    assert len(list_entries(task.name)) == 1 and problems(task.name) == []


def _admit_many(task, evaluations):
    for given in evaluations:
        admit(given, task, author=f"process {os.getpid()}")


def test_concurrent_writers_lose_nothing(task, evaluation, tmp_path):
    context = multiprocessing.get_context("fork")
    batches = []
    for worker in range(2):
        folder = tmp_path / f"worker{worker}"
        folder.mkdir()
        own = [evaluation(task, source=f"# {worker} {i}\n") for i in range(4)]
        shared = [evaluation(task, source="# both\n", storage=("bf16", "fp16")[worker])]
        batches.append(own[:2] + shared + own[2:])
    processes = [context.Process(target=_admit_many, args=(task, batch)) for batch in batches]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [p.exitcode for p in processes] == [0, 0]
    entries, found = scan(task.name)
    assert found == [] and len(entries) == 9
    assert next(e for e in entries if e.source == "# both\n").record.storages == ("bf16", "fp16")


@pytest.mark.parametrize(
    ("step", "count"),
    [("_write_file", 1), ("_write_file", 3), ("_write_file", 5), ("_flush_folder", 1), ("_flush_folder", 2)],
)
def test_a_killed_writer_leaves_no_half_entry(task, evaluation, monkeypatch, step, count):
    admit(evaluation(task, source="# there before\n"), task, author="x")
    given = evaluation(task)
    real, calls = getattr(store_module, step), []

    def stop(*args):
        calls.append(args)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args)

    def child():
        setattr(store_module, step, stop)
        admit(given, task, author="x")

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    entries, found = scan(task.name)
    assert found == [] and "# there before\n" in {e.source for e in entries}
    assert process.exitcode == -signal.SIGKILL
    admit(given, task, author="x")
    entries, found = scan(task.name)
    assert found == [] and len(entries) == 2
    assert list(stores()[0].glob(".staging-*")) == []


def test_a_writer_killed_while_replacing_evidence_leaves_the_old_or_the_new(task, evaluation):
    admit(evaluation(task), task, author="x")
    given = evaluation(task, body=b"new", timing={"tax": 1.01})
    context = multiprocessing.get_context("fork")
    outcomes = set()
    for delay in (0.0, 0.002, 0.004, 0.008, 0.016, 0.032, 0.2):
        process = context.Process(target=_admit_many, args=(task, [given]))
        process.start()
        time.sleep(delay)
        process.kill()
        process.join()
        entries, found = scan(task.name)
        assert found == [] and len(entries) == 1
        outcomes.add(entries[0].record.tax)
    assert outcomes <= {1.05, 1.01}


def test_a_read_only_store_is_one_sentence(task, evaluation):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        given = evaluation(task, folder)
        store = folder / "readonly"
        store.mkdir(mode=0o555)
        with _ordinary_user(), pytest.raises(RegistryError) as error:
            admit(given, task, author="x", store=store)
    assert f"{store} cannot be written" in str(error.value) and "CODASMITH_HOME" in str(error.value)


@contextlib.contextmanager
def _ordinary_user():
    """Root may write anywhere: give that up for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_full_disk_is_one_sentence_and_leaves_nothing(task, evaluation):
    given = evaluation(task)

    def child(pipe):
        # Every file may grow to 300 bytes and no further: the write fails half way, as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
        try:
            admit(given, task, author="x")
        except RegistryError as error:
            pipe.send(str(error))

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
    process.start()
    process.join(60)
    assert ours.poll() and "cannot be written" in ours.recv()
    assert scan(task.name)[0] == [] and list(stores()[0].glob(".staging-*")) == []


def test_a_held_lock_is_one_sentence(task, evaluation, monkeypatch):
    admit(evaluation(task), task, author="x")
    monkeypatch.setattr(store_module, "LOCK_SECONDS", 0.1)
    with store_module.FileLock(stores()[0] / ".lock"), pytest.raises(RegistryError, match="another process has held"):
        admit(evaluation(task, source="# more\n"), task, author="x")
