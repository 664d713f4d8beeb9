import json
import threading
import time

import pytest
import torch
from codasmith.agent.errors import UserMistake
from codasmith.agent.models import Answer, ModelError, Usage
from codasmith.evals import runs
from codasmith.evals.hand_written import HandWritten
from codasmith.evals.jobs import in_order, jobs
from codasmith.evals.results import write_results
from codasmith.evals.run_folder import RunFolder, merge
from codasmith.evals.runs import make_spec, run
from codasmith.tasks import ProgramTask, TaskError


@pytest.fixture
def make(dice):
    def made(name, tier):
        return HandWritten(tier) if name == "hand-written" else dice(name, 0.6)

    return made


def test_every_model_samples_every_task_and_baselines_once(four, spec):
    found = [j.key for j in jobs(spec(four, "a", "b"), four)]
    assert len(found) == len(set(found)) == 4 * (2 * 2 + 3)
    assert ("builtin:tracer", "closed", "linear_lse", 1) in found and (
        "hand-written",
        "closed",
        "linear_lse",
        1,
    ) in found
    first = ("hand-written", "builtin:tracer", "builtin:search", "a", "b")
    assert found[:5] == [(m, "closed", "linear_bias", 1) for m in first]


def test_baselines_take_part_only_where_they_apply(four, spec):
    open_tier = [j.key for j in jobs(spec(four, tiers=("cutedsl",)), four)]
    assert open_tier == [("hand-written", "cutedsl", "rmsnorm_swiglu", 1)]


def test_the_search_has_a_models_attempts_and_the_other_baselines_one(four, spec):
    from codasmith.evals.sample import budget_of

    asked = spec(four, "a", attempts=7)
    attempts = {j.model: budget_of(j, asked).attempts for j in jobs(asked, four)}
    assert attempts == {"hand-written": 1, "builtin:tracer": 1, "builtin:search": 7, "a": 7}


def test_workers_share_the_cores_and_leave_the_callers_threads_alone(tmp_path, four, spec, make, gate):
    """Several that interpret candidates with all cores each would keep the processes that time kernels waiting."""
    seen, before = [], torch.get_num_threads()

    def counted(*args, **kwargs):
        seen.append(torch.get_num_threads())
        return gate(*args, **kwargs)

    run(spec(four, "a", samples=1), four, RunFolder(tmp_path), workers=64, make=make, gate=counted)
    assert seen and set(seen) == {1} and torch.get_num_threads() == before


def test_shards_share_the_samples_out_without_overlap(four, spec):
    whole = {j.key for j in jobs(spec(four, "a"), four)}
    parts = [{j.key for j in jobs(spec(four, "a", shard=f"{i}/3"), four)} for i in (1, 2, 3)]
    assert set.union(*parts) == whole and sum(map(len, parts)) == len(whole)


def test_a_shard_holds_whole_tasks_and_as_many_of_each_level_as_any_other(public, spec):
    shards = [jobs(spec(public, "a", shard=f"{i}/4", samples=1), public) for i in (1, 2, 3, 4)]
    tasks = [{j.entry.name: j.entry.level for j in found} for found in shards]
    assert sum(map(len, tasks)) == len({n for found in tasks for n in found}) == len(public.tasks)
    for level in {e.level for e in public.spec.tasks}:
        counts = [list(found.values()).count(level) for found in tasks]
        assert max(counts) - min(counts) <= 1
    for found in shards:
        order = [j.entry.name for j in found]
        assert order == sorted(order, key=order.index), "a task of all models, then the next"


def test_any_beginning_of_the_order_has_its_share_of_each_level(public):
    order = in_order(public.spec.tasks)
    assert sorted(e.name for e in order) == sorted(public.tasks)
    for level in {e.level for e in order}:
        share = sum(e.level == level for e in order) / len(order)
        for n in range(1, len(order) + 1):
            assert abs(sum(e.level == level for e in order[:n]) - n * share) <= 1.5


def test_a_program_that_the_translators_cannot_answer_counts_as_unsolved(tmp_path, public, spec, gate):
    entry = next(e for e in public.spec.tasks if isinstance(public.tasks[e.name], ProgramTask))
    asked = spec(public, tasks=("linear_bias", entry.name))
    assert run(asked, public, RunFolder(tmp_path), gate=gate) == []
    results = write_results(RunFolder(tmp_path), public)
    by = {s.label: s for s in results.scores}
    assert {by[m].tasks for m in ("hand-written", "builtin:tracer", "builtin:search")} == {2}
    for model in ("builtin:tracer", "builtin:search"):
        assert by[model].pass_at[1].value == 0.5 and by[model].speedup_solved.value == pytest.approx(1.25)
        assert by[model].speedup_all.value == pytest.approx(1.25**0.5)
    notes = " ".join(results.notes)
    assert "builtin:tracer (closed): 1 of its 2 samples ended because it gave no further answer" in notes


def test_a_run_leaves_one_row_a_sample_whatever_the_workers(tmp_path, four, spec, gate, make):
    asked, said = spec(four, "a"), []
    assert run(asked, four, RunFolder(tmp_path / "one"), make=make, gate=gate, workers=1, say=said.append) == []
    assert run(asked, four, RunFolder(tmp_path / "four"), make=make, gate=gate, workers=4) == []
    one, many = ((tmp_path / p / "results.jsonl").read_bytes().splitlines() for p in ("one", "four"))
    first, *lines = said  # how much is to be done is told before the first answer
    assert first.startswith(f"{len(one)} samples to make, 1 at a time, ") and first.endswith(f"in {tmp_path / 'one'}")
    assert len(one) == len(jobs(asked, four)) == len(lines)
    assert sorted(one) == sorted(many)


def test_a_whole_run_asks_nothing_again(tmp_path, four, spec, gate, make):
    run(spec(four, "a"), four, RunFolder(tmp_path), make=make, gate=gate)
    before = (tmp_path / "results.jsonl").read_bytes()

    class Silent:
        name = "a"

        def answer(self, messages, **_):
            raise AssertionError("asked again")

    run(spec(four, "a"), four, RunFolder(tmp_path), make=lambda n, t: Silent(), gate=gate)
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_lost_rows_are_computed_from_the_journals(tmp_path, four, spec, gate, make):
    folder = RunFolder(tmp_path)
    run(spec(four, "a"), four, folder, make=make, gate=gate, workers=1)
    before = (tmp_path / "results.jsonl").read_bytes()
    lines = before.splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])  # as a kill would leave it
    assert len(folder.rows()) == len(lines) - 1

    class Silent:
        name = "a"

        def answer(self, messages, **_):
            raise AssertionError("asked again")

    run(spec(four, "a"), four, folder, make=lambda n, t: Silent(), gate=gate)
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_a_run_whose_time_is_up_begins_nothing_and_goes_on_later(tmp_path, four, spec, gate, make):
    asked, folder = spec(four, "a", samples=1), RunFolder(tmp_path / "r")
    left = run(asked, four, folder, make=make, gate=gate, limit_s=0)
    assert len(left) == len(jobs(asked, four)) and {u.reason for u in left} == {"the time was up"}
    assert folder.rows() == []
    assert run(asked, four, folder, make=make, gate=gate, limit_s=600) == []
    assert len(folder.rows()) == len(left)


def test_when_the_time_is_up_samples_under_way_are_left_and_gone_on_with_without_asking_again(
    tmp_path, four, spec, gate, dice
):
    asked, folder = spec(four, "a", samples=1, tasks=("linear_lse",), target_tax=0.5), RunFolder(tmp_path)
    questions, ends = [], time.monotonic() + 2.0

    def before():
        questions.append(1)
        time.sleep(max(0.0, ends - time.monotonic()) + 0.2)  # the answer comes when the time is up

    def make(name, tier):
        return HandWritten(tier) if name == "hand-written" else dice(name, 1.0, before=before if name == "a" else None)

    left = run(asked, four, folder, make=make, gate=gate, workers=4, limit_s=2.0)
    assert ("a on linear_lse #1", "the time was up") in [(str(u.job), u.reason) for u in left]
    assert run(asked, four, folder, make=make, gate=gate) == []
    assert len(questions) == asked.attempts


def test_a_judgement_that_takes_too_long_is_not_waited_for(tmp_path, four, spec, gate, make, monkeypatch):
    monkeypatch.setattr(runs, "GRACE_S", 0.1)
    free = threading.Event()

    def stuck(task, source, **more):
        free.wait(30)
        return gate(task, source, **more)

    started = time.monotonic()
    left = run(spec(four, "a", samples=1), four, RunFolder(tmp_path), make=make, gate=stuck, workers=2, limit_s=0.1)
    free.set()
    assert len(left) == len(jobs(spec(four, "a", samples=1), four)) and time.monotonic() - started < 10


class Failing:
    name = "a"

    def __init__(self, kind):
        self.kind = kind

    def answer(self, messages, **_):
        raise ModelError("it did not answer", self.kind)


def test_what_is_not_the_models_fault_leaves_the_sample_open(tmp_path, four, spec, gate, make):
    folder, asked = RunFolder(tmp_path), spec(four, "a", samples=1)
    left = run(asked, four, folder, make=lambda n, t: Failing("overloaded") if n == "a" else make(n, t), gate=gate)
    assert len(left) == 4 and {u.reason for u in left} == {"it did not answer"}
    assert not any(r.model == "a" for r in folder.rows())
    assert run(asked, four, folder, make=make, gate=gate) == []
    assert sum(r.model == "a" for r in folder.rows()) == 4


def test_a_model_that_refuses_has_failed_its_sample(tmp_path, four, spec, gate, make):
    folder = RunFolder(tmp_path)
    asked = spec(four, "a", samples=1)
    assert run(asked, four, folder, make=lambda n, t: Failing("refused") if n == "a" else make(n, t), gate=gate) == []
    rows = [r for r in folder.rows() if r.model == "a"]
    assert {(r.status, r.ended, r.solved) for r in rows} == {("none", "model", False)}


def test_a_gate_that_breaks_leaves_the_sample_open_and_the_answer_kept(tmp_path, four, spec, gate, make):
    folder, asked = RunFolder(tmp_path), spec(four, "a", samples=1, tasks=("linear_bias",))
    answers = []

    class Once:
        name = "a"

        def answer(self, messages, **_):
            answers.append(1)
            return Answer(text="```python\nx = 1  # BROKEN\n```", usage=Usage(dollars=0.0), model="a")

    left = run(asked, four, folder, make=lambda n, t: Once() if n == "a" else make(n, t), gate=gate)
    assert [u.reason for u in left] == ["the driver went away"]

    def mended(task, source, **more):
        return gate(task, source.replace("BROKEN", "tax=1.0 fast=1.5 "), **more)

    assert run(asked, four, folder, make=lambda n, t: Once() if n == "a" else make(n, t), gate=mended) == []
    (row,) = [r for r in folder.rows() if r.model == "a"]
    assert row.solved and len(answers) == 1


def test_a_fault_in_one_sample_does_not_end_the_others(tmp_path, four, spec, gate, make):
    def faulty(task, source, **more):
        if task.name == "linear_lse":
            raise ZeroDivisionError("oh")
        return gate(task, source, **more)

    left = run(spec(four, "a", samples=1), four, RunFolder(tmp_path), make=make, gate=faulty)
    assert {u.job.entry.name for u in left} == {"linear_lse"} and left[0].reason == "ZeroDivisionError: oh"
    assert {r.task for r in RunFolder(tmp_path).rows()} == {"linear_bias", "linear_silu", "rmsnorm_swiglu"}


def test_the_gate_is_never_asked_twice_at_a_time(tmp_path, four, spec, gate, make):
    import threading
    import time

    inside, most = [], []

    def watched(task, source, **more):
        inside.append(threading.get_ident())
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()
        return gate(task, source, **more)

    run(spec(four, "a"), four, RunFolder(tmp_path), make=make, gate=watched, workers=4)
    assert max(most) == 1 and len(most) > 8


def test_another_question_in_the_same_folder_is_refused(tmp_path, four, spec, gate, make):
    run(spec(four, "a", samples=1), four, RunFolder(tmp_path), make=make, gate=gate)
    begun = r"was begun with other samples \(1, and now 2\): codasmith eval --model a --budget \d+ --samples 1 .*--out"
    with pytest.raises(UserMistake, match=begun):
        run(spec(four, "a", samples=2), four, RunFolder(tmp_path), make=make, gate=gate)
    with pytest.raises(UserMistake, match=r"with other tasks \(none named, and now linear_bias, mlp_gelu\): codasmith"):
        run(
            spec(four, "a", samples=1, tasks=("linear_bias", "mlp_gelu")),
            four,
            RunFolder(tmp_path),
            make=make,
            gate=gate,
        )
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("words")
    with pytest.raises(UserMistake, match="holds something else than a run"):
        run(spec(four, "a"), four, RunFolder(other), make=make, gate=gate)
    assert (other / "thesis.txt").read_text() == "words"


def test_parts_of_different_runs_do_not_merge(tmp_path, four, spec, gate, make):
    run(spec(four, "a", samples=1), four, RunFolder(tmp_path / "x"), make=make, gate=gate)
    run(spec(four, "b", samples=1), four, RunFolder(tmp_path / "y"), make=make, gate=gate)
    with pytest.raises(UserMistake, match="are not parts of one run: models is"):
        merge([tmp_path / "x", tmp_path / "y"], tmp_path / "z")
    run(spec(four, "a", samples=1), four, RunFolder(tmp_path / "w"), make=make, gate=gate)
    file = tmp_path / "w" / "results.jsonl"
    row = json.loads(file.read_text().splitlines()[0])
    file.write_text(json.dumps({**row, "dollars": 99.0}) + "\n")
    with pytest.raises(UserMistake, match="disagree about sample 1 of"):
        merge([tmp_path / "x", tmp_path / "w"], tmp_path / "v")


def test_wrong_questions_are_one_sentence(public):
    def ask(*models, **more):
        return make_spec(models, public, "s", **{"samples": 1, "attempts": 1, "cpu_only": True, **more})

    for words, asked in {
        "--samples 0": lambda: ask("a", samples=0),
        "is named twice": lambda: ask("a", "a"),
        "is in every run already": lambda: ask("builtin:tracer"),
        "--shapes 0 times nothing": lambda: ask("a", shapes=0),
        "has no task 'nothing'": lambda: ask("a", tasks=("nothing",)),
        "--shard '3/2' is no part": lambda: ask("a", shard="3/2"),
    }.items():
        with pytest.raises(UserMistake, match=words):
            asked()
    assert ask("a").cpu_only


def test_a_wrong_model_is_said_before_anything_is_asked(tmp_path, four, spec, gate):
    with pytest.raises(ModelError, match="unknown model 'nonsense'"):
        run(spec(four, "nonsense"), four, RunFolder(tmp_path / "r"), gate=gate)
    assert not (tmp_path / "r").exists()


def test_a_storage_dtype_that_a_task_of_the_set_lacks_is_refused_before_anything_is_asked(four, spec, make, tmp_path):
    asked = spec(four, "a").model_copy(update={"storage": "fp8"})
    with pytest.raises(TaskError, match="is for bf16, fp16, and fp8 is asked"):
        run(asked, four, RunFolder(tmp_path / "run"), make=make, gate=lambda *_, **__: None)
    assert not (tmp_path / "run").exists()
