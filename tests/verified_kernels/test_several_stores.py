"""One kernel in the user's store and in the shipped one: what either was verified for can be used."""

import io

import pytest
from codasmith.tasks import Workload, draw
from codasmith.verified_kernels import admit, describe, export, list_entries, load, problems, render, store
from codasmith.verified_kernels.record import Record
from rich.console import Console


@pytest.fixture
def task(sample):
    return sample("sample_select")


@pytest.fixture
def both(task, evaluation):
    """The same source: shipped with evidence for bf16 and fp16, and admitted by the user for fp8 alone."""
    admit(evaluation(task, body=b"shipped"), task, author="x", store=store.SHIPPED)
    shipped = admit(evaluation(task, storage="fp16", body=b"shipped"), task, author="x", store=store.SHIPPED)
    own = admit(evaluation(task, storage="fp8", body=b"own", timing={"tax": 1.2}), task, author="x")
    assert shipped.record.digest == own.record.digest
    return shipped, own


def values_of(task, storage="bf16"):
    inputs = draw(task, Workload(sizes={"M": 5, "N": 24, "K": 16}, storage=storage))
    return [inputs[name] for name in task.tensors]


@pytest.mark.parametrize("storage", ["bf16", "fp16"])
def test_verifying_a_shipped_kernel_for_fp8_leaves_its_other_dtypes_as_they_were(fake_kernel, task, both, storage):
    op = load(task, strict=True)
    op(*values_of(task, storage))
    assert fake_kernel and op.why_not(*values_of(task, storage)) is None


def test_each_evidence_comes_with_its_own_objects(task, both):
    entry = load(task).entry
    ends = {o.storage: entry.library(o)[-7:] for o in entry.record.objects}
    assert ends == {"bf16": b"shipped", "fp16": b"shipped", "fp8": both[1].library(both[1].record.objects[0])[-7:]}
    assert ends["fp8"].endswith(b"own") and entry.source == both[0].source


def test_the_users_own_evidence_goes_before_that_of_the_same_dtype(fake_kernel, task, both, evaluation):
    admit(evaluation(task, body=b"own", timing={"tax": 1.3}), task, author="x")
    entry = load(task).entry
    assert entry.record.of("bf16").tax == 1.3 and entry.record.of("fp16").tax == 1.05
    assert all(entry.library(o).endswith(b"own") for o in entry.record.of("bf16").objects)


def test_a_damaged_one_of_the_users_leaves_the_shipped_one(fake_kernel, task, both):
    (both[1].path / "kernel.py").write_text("# changed\n")
    assert len(problems(task.name)) == 1
    with pytest.warns(UserWarning, match="skipped an entry"):
        op = load(task, strict=True)
    op(*values_of(task))
    assert fake_kernel and op.entry.record.storages == ("bf16", "fp16")


def test_it_is_listed_and_shown_once_with_all_that_is_known(task, both):
    (row,) = list_entries(task.name)
    assert row.storages == ("bf16", "fp16", "fp8") and row.store == "user and shipped" and row.tax == 1.05
    found = describe(row.name)
    assert found.paths == {"bf16": str(both[0].path), "fp16": str(both[0].path), "fp8": str(both[1].path)}
    console = Console(file=io.StringIO(), width=400)
    console.print(render(found))
    shown = console.file.getvalue()
    for part in ("verified bf16", "verified fp16", "verified fp8", str(both[0].path), str(both[1].path)):
        assert part in shown


def test_the_best_for_a_dtype_is_the_best_of_that_dtype(fake_kernel, task, evaluation):
    for source, bf16, fp16 in (("# a\n", 1.5, 1.01), ("# b\n", 1.1, 1.2)):
        admit(evaluation(task, source=source, timing={"tax": bf16}), task, author="x")
        admit(evaluation(task, source=source, storage="fp16", timing={"tax": fp16}), task, author="x")
    op = load(task)
    assert op.entry.source == "# a\n"
    chosen = {}
    for storage in ("bf16", "fp16"):
        entries = op._runner.answering(storage, {})
        chosen[storage] = entries[0][0].source
    assert chosen == {"bf16": "# b\n", "fp16": "# a\n"}


def test_native_code_of_an_author_is_loaded_only_where_no_closed_kernel_answers(fake_kernel, task, evaluation):
    """Being faster is no reason to run, unasked, what an author wrote instead of what the template generated."""
    admit(evaluation(task, source="# closed\n", timing={"tax": 1.2}), task, author="x")
    for storage in ("bf16", "fp16"):
        found = evaluation(task, source="# open\n", storage=storage, timing={"tax": 1.0})
        found.tier = "cutedsl"
        admit(found, task, author="x")
    op = load(task)
    assert op.entry.source == "# closed\n"
    assert [op._runner.answering(s, {})[0][0].source for s in ("bf16", "fp16")] == ["# closed\n", "# open\n"]


@pytest.mark.filterwarnings("ignore")
def test_a_package_of_it_holds_the_record_of_both(evaluation, tmp_path):
    from codasmith.tasks import load_task

    task = load_task("linear_silu")
    admit(evaluation(task), task, author="x", store=store.SHIPPED)
    admit(evaluation(task, storage="fp16"), task, author="x")
    folder = export("linear_silu", tmp_path / "packages")
    (path,) = folder.glob("build/*/record.json")
    assert Record.loads(path.read_text(), "it").storages == ("bf16", "fp16")
