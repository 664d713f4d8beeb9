"""Kernels of another machine: bytes checked, the newest evidence of each storage dtype kept, refusals in a sentence."""

import importlib
import json
import shutil
from types import SimpleNamespace

import pytest
from codasmith.agent.cli import app
from codasmith.templates.schedule import SCHEDULES
from codasmith.verified_kernels import RegistryError, add, admission, admit, find
from codasmith.verified_kernels.record import Record
from codasmith.verified_kernels.store import read_entry, scan, user_store
from typer.testing import CliRunner


@pytest.fixture
def task(sample):
    return sample("sample_select")


@pytest.fixture
def made(task, evaluation, monkeypatch):
    """Admits the same kernel to a store, as on a day of November."""

    def make(store, day, **changes):
        monkeypatch.setattr(admission, "now", lambda: f"2026-11-{day:02}T00:00:00Z")
        return admit(evaluation(task, **changes), task, author="x", store=store)

    return make


def test_the_newest_evidence_of_each_dtype_stays(made, homes):
    here, there = homes / "here", homes / "there"
    made(here, 5, timing={"tax": 1.05})
    made(here, 5, storage="fp16", timing={"tax": 1.5})
    made(there, 3, timing={"tax": 1.03}, body=b"older")
    made(there, 9, storage="fp16", timing={"tax": 1.9}, body=b"newer", schedules=SCHEDULES[:1])
    given = made(there, 9, storage="fp8", timing={"tax": 1.8})
    (row,) = add([there], here)
    assert (row.outcome, row.name, row.storages) == ("added", given.name, ("fp16", "fp8"))
    entry = read_entry(here / given.record.task / given.record.digest)
    assert [(e.storage, e.tax) for e in entry.record.evidence] == [("bf16", 1.05), ("fp16", 1.9), ("fp8", 1.8)]
    assert all(entry.library(o).endswith(b"newer") == (o.storage == "fp16") for o in entry.record.objects)
    assert {p.name for p in entry.path.glob("*.xz")} == {o.file for o in entry.record.objects}
    (again,) = add([there], here)
    assert again.outcome == "there" and "as new or newer" in again.note and again.storages == ()
    (back,) = add([here], there)
    assert back.storages == ("bf16",) and read_entry(given.path).record.evidence == entry.record.evidence


@pytest.mark.parametrize("place", ["home", "store", "task", "entry"])
def test_homes_stores_tasks_and_entries_are_folders_to_add(made, homes, place):
    entry = made(homes / "elsewhere/kernels", 1)
    folders = {"home": entry.path.parents[2], "store": entry.path.parents[1], "task": entry.path.parent}
    (row,) = add([folders.get(place, entry.path)])
    assert row.outcome == "added" and find(row.name).path.is_relative_to(user_store())


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("kernel.py", "kernel.py was changed after admission"),
        ("record.json", "record.json"),
        ("*.xz", "was changed after admission; verify the kernel again"),
        ("name", "does not hold the kernel that its name says"),
    ],
)
def test_what_was_changed_is_refused_and_the_rest_is_added(made, homes, damage, says):
    bad, good = made(homes / "there", 1, source="# bad\n"), made(homes / "there", 1, source="# good\n")
    if damage == "name":
        bad.path.rename(bad.path.with_name("0" * 64))
    else:
        path = next(bad.path.glob(damage))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    rows = {row.outcome: row for row in add([homes / "there"])}
    assert set(rows) == {"added", "refused"} and rows["added"].name == good.name
    assert says in rows["refused"].note and "\n" not in rows["refused"].note
    assert [e.source for e in scan()[0]] == ["# good\n"]


def _forge(entry, **changes):
    """A record that its writer sealed again."""
    body = json.loads((entry.path / "record.json").read_text())
    body.pop("seal")
    (entry.path / "record.json").write_text(Record.model_validate({**body, **changes}).dumps())


def test_a_record_that_names_files_elsewhere_is_refused(made, homes):
    entry = made(homes / "there", 1)
    shutil.copy(entry.path / "kernel.py", entry.path.parent / "kernel.py")
    _forge(entry, files={**entry.record.files, "../kernel.py": entry.record.files["kernel.py"]})
    (row,) = add([homes / "there"])
    assert row.outcome == "refused" and "'../kernel.py', which is no plain name" in row.note
    _forge(entry, files=entry.record.files, task="../../out")
    assert "'../../out', which is no name" in add([homes / "there"])[0].note
    _forge(entry, task=entry.record.task, evidence=[])
    assert "holds no compiled object" in add([homes / "there"])[0].note
    assert not user_store().exists()


def test_a_kernel_of_an_earlier_task_is_refused(made, homes, monkeypatch):
    made(homes / "there", 1)
    module = importlib.import_module("codasmith.verified_kernels.add")
    monkeypatch.setattr(module, "shipped_task", lambda name: SimpleNamespace(name=name, digest="0" * 64))
    (row,) = add([homes / "there"])
    assert row.outcome == "refused" and "answers an earlier version of sample_select" in row.note


def test_a_folder_without_entries_is_an_error(homes):
    with pytest.raises(RegistryError, match="has no entry of a store in it; name a store"):
        add([homes])
    with pytest.raises(RegistryError, match="nowhere is no folder"):
        add([homes / "nowhere"])


def test_the_command_tells_of_each_and_fails_if_one_was_refused(made, homes):
    good, bad = made(homes / "a", 1), made(homes / "b", 1, source="# bad\n")
    (bad.path / "kernel.py").write_text("# other\n")
    result = CliRunner().invoke(app, ["kernels", "add", str(homes / "a"), str(homes / "b")])
    assert result.exit_code == 2 and f"added {good.name}: bf16" in result.output
    assert "1 added, 0 there already, 1 refused" in result.output and "refused: " in result.output
    result = CliRunner().invoke(app, ["kernels", "add", str(homes / "a"), "--to", str(homes / "c"), "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and document["kernels"][0]["storages"] == ["bf16"]
    assert read_entry(homes / "c" / good.path.relative_to(homes / "a")).record == good.record
