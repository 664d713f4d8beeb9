"""What the command line shows: every entry once, with its state, and a page for one of them."""

import io
from pathlib import Path

import pytest
from codasmith.tasks import load_task
from codasmith.verified_kernels import (
    UnknownKernel,
    admit,
    describe,
    list_entries,
    render,
    render_list,
    store,
)
from rich.console import Console


def text_of(renderable):
    console = Console(file=io.StringIO(), width=160)
    console.print(renderable)
    return console.file.getvalue()


def test_listing_has_what_a_person_asks_first(sample, evaluation):
    task = sample("sample_gated")
    entry = admit(evaluation(task), task, author="anthropic:NAME")
    (row,) = list_entries("sample_gated")
    assert (row.name, row.status, row.author, row.tax) == (entry.name, "verified", "anthropic:NAME", 1.05)
    assert (row.storages, row.schedules, row.gpu, row.store) == (("bf16",), 2, "NVIDIA H200", "user")
    shown = text_of(render_list([row]))
    assert entry.name in shown and "1.050" in shown and "NVIDIA H200" in shown


def test_an_entry_of_an_earlier_task_is_listed_as_stale(sample, evaluation, tmp_path):
    text = sample("sample_select").path.read_text()
    (tmp_path / "old.py").write_text(text.replace("def sample_select(", "def linear_silu("))
    task = load_task(f"{tmp_path / 'old.py'}:linear_silu")  # the catalogue has another task of that name
    admit(evaluation(task), task, author="x")
    row = next(r for r in list_entries("linear_silu") if r.store == "user")
    assert row.status == "stale" and "earlier version of linear_silu" in row.note
    assert row.note in text_of(render(describe(row.name)))


def test_a_page_shows_source_author_and_environment(sample, evaluation):
    task = sample("sample_gated")
    entry = admit(
        evaluation(task, source="def kernel(acc): ...\n"), task, author={"name": "a", "prompt_digest": "ab" * 32}
    )
    description = describe("sample_gated")
    assert description.source == "def kernel(acc): ...\n" and description.record == entry.record
    shown = text_of(render(description))
    for part in ("def kernel(acc): ...", "abababababab", "NVIDIA H200", "x @ w.T", entry.name):
        assert part in shown


def test_an_unknown_name_or_digest_says_what_there_is(sample, evaluation):
    task = sample("sample_gated")
    entry = admit(evaluation(task), task, author="x")
    with pytest.raises(UnknownKernel, match=entry.name):
        describe("sample_gated/0000")
    with pytest.raises(UnknownKernel, match="did you mean sample_gated"):
        describe("sample_gate")
    with pytest.raises(UnknownKernel, match="no kernel of linear_zloss was admitted yet"):
        describe("linear_zloss")


def test_a_list_is_of_one_task_or_one_kernel_and_not_of_a_name_that_nobody_knows(sample, evaluation):
    entry = admit(evaluation(sample("sample_gated")), sample("sample_gated"), author="x")
    assert [row.name for row in list_entries(entry.name)] == [entry.name]
    assert list_entries("linear_zloss") == []  # known, and without a kernel here
    for name, says in (("sample_gate", "did you mean sample_gated"), ("../x", "nothing is called"), ("a/b", "'a'")):
        with pytest.raises(UnknownKernel, match=says):
            list_entries(name)
    with pytest.raises(UnknownKernel, match=f"sample_gated has no entry '0000'; it has {entry.name}"):
        list_entries("sample_gated/0000")


def test_a_kernel_for_fp8_says_what_the_tensor_core_loses(monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", Path(store.__file__).parent / "kernels")
    for name, said in (("linear_bias_fp8", True), ("linear_bias", False)):
        assert ("of 128 terms each in the tensor core's own 14 bits" in text_of(render(describe(name)))) is said
