import math
import random
import statistics

import pytest
from codasmith.agent.history import History
from codasmith.agent.journal import Journal
from codasmith.evals.rows import counted, ending, row_of, timed_of
from codasmith.evals.run_folder import RunFolder, merge
from codasmith.evals.runs import run
from codasmith.gate.verdict import Verdict


def events(*names):
    return [{"event": name, **data} for name, data in names]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (("stop", {"reason": "attempts"}), "attempts"),
        (("stop", {"reason": "good-enough"}), "good-enough"),
        (("stop", {"reason": "gate"}), None),
        (("stop", {"reason": "unpriced"}), None),
        (("error", {"what": "model", "failure": "refused"}), "model"),
        (("error", {"what": "model", "failure": "rate-limited"}), None),
        (("verdict", {}), None),
        (("resumed", {}), None),
        (("interrupted", {}), None),
    ],
)
def test_a_sample_is_over_only_when_the_model_had_its_say(last, expected):
    assert ending(events(("start", {}), last)) == expected


def test_best_baseline_is_the_faster_of_eager_and_compile_on_each_workload(gate, public):
    verdict = gate(public.tasks["linear_bias"], "# tax=1.1 fast=1.3").verdict
    (timed,) = timed_of(verdict)
    assert timed.baseline == "compile" and timed.speedup == pytest.approx(1.3) and timed.tax == 1.1
    swapped = verdict.model_dump()
    swapped["timing"]["workloads"][0]["milliseconds"]["eager"] = 0.55
    (timed,) = timed_of(type(verdict).model_validate(swapped))
    assert timed.baseline == "eager" and timed.speedup == pytest.approx(0.5)
    swapped["timing"]["workloads"][0]["milliseconds"] |= {"up: cublas": 0.2, "down: bare 128x128": 0.1}
    (timed,) = timed_of(type(verdict).model_validate(swapped))
    assert timed.baseline == "eager", "a program's single products do not do its job"


def passing(number, *ends, status="passed"):
    """An attempt's events: a kernel with a tax of (low, value, high) on each workload."""
    taxes = [dict(zip(("low", "value", "high"), e, strict=True)) for e in ends]
    rows = [{"tax": t} for t in taxes]
    timing = {"tax": math.prod(t["value"] for t in taxes) ** (1 / len(taxes)), "workloads": rows} if ends else {}
    made = Verdict(task="t", task_digest="d", candidate_digest="c", tier="closed", status=status, timing=timing)
    return [
        {"event": "answer", "attempt": number, "text": "..."},
        {"event": "verdict", "attempt": number, "source": f"x = {number}", "verdict": made.model_dump(mode="json")},
    ]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([[(1.09, 1.10, 1.11)], [(1.08, 1.095, 1.10)], [(1.08, 1.085, 1.10)]], 1),
        ([[(1.09, 1.10, 1.11)], [(1.07, 1.08, 1.085)]], 2),
        ([[(1.07, 1.08, 1.085)], [(1.09, 1.10, 1.11)]], 1),
        ([[(1.0, 1.1, 1.2), (1.0, 1.1, 1.2)], [(0.9, 0.95, 0.99), (0.9, 0.99, 1.01)]], 2),
        ([[(1.0, 1.1, 1.2), (1.0, 1.1, 1.2)], [(0.9, 0.95, 0.99), (1.0, 1.05, 1.1)]], 1),
        ([[], [(1.09, 1.10, 1.11)]], 2),
    ],
)
def test_a_later_kernel_counts_only_where_it_is_faster_by_more_than_the_noise(attempts, expected):
    made = [e for n, ends in enumerate(attempts, 1) for e in passing(n, *ends)]
    assert counted(History(made)).number == expected


def test_what_passes_counts_before_what_does_not_and_of_the_rest_the_furthest():
    refused, checked = passing(1, status="refused"), passing(2, status="checked")
    assert counted(History([*refused, *checked, *passing(3, (1.4, 1.5, 1.6))])).number == 3
    assert counted(History(refused)).number == 1 and counted(History([])) is None


def test_more_attempts_of_equal_kernels_gain_nothing():
    """Whoever has twenty kernels of the same speed, timed with a noise as wide as their intervals, is no faster."""
    rng, once, least, often = random.Random(0), [], [], []
    for _ in range(300):
        centres = [math.exp(rng.gauss(0.0, 0.004)) for _ in range(20)]
        events = [e for n, c in enumerate(centres, 1) for e in passing(n, (c * 0.992, c, c * 1.008))]
        once.append(centres[0])
        least.append(min(centres))
        often.append(counted(History(events)).verdict.tax)
    one, some, many = (statistics.fmean(v) for v in (once, often, least))
    assert one - some < 0.002 < 0.006 < one - many


def test_a_row_says_what_the_journal_says(tmp_path, four, spec, gate, dice):
    folder = RunFolder(tmp_path / "run")
    run(spec(four, "m", samples=1, tasks=("linear_bias",)), four, folder, make=lambda n, t: dice(n, 0.4), gate=gate)
    row = next(r for r in folder.rows() if r.model == "m")
    with Journal(folder.path / row.journal) as book:
        again = row_of(book.events, level=row.level, family=row.family, sample=1, journal=row.journal)
    assert again == row
    assert row.input_tokens == 1000 * len(row.attempts) and row.output_tokens == 200 * len(row.attempts)
    assert row.dollars == pytest.approx(0.01 * len(row.attempts))
    passed = [a for a in row.attempts if a.status == "passed"]
    fresh = [a for a in passed if a.repeats is None]
    assert row.gpu_seconds == 2.0 * len(fresh) and row.answer_seconds == 0.5 * len(row.attempts)
    refused = [a for a in row.attempts if a.status == "refused"]
    assert {(a.stage, a.code) for a in refused} <= {("interpret", "wrong-values")}


def test_merging_parts_gives_the_run_made_in_one_place(tmp_path, four, spec, gate, dice):
    def make(name, tier):
        return dice(name, 0.5)

    whole = RunFolder(tmp_path / "whole")
    run(spec(four, "m"), four, whole, make=make, gate=gate)
    for part in ("1/3", "2/3", "3/3"):
        run(spec(four, "m", shard=part), four, RunFolder(tmp_path / part[0]), make=make, gate=gate)
    joined = merge([tmp_path / p for p in "132"], tmp_path / "joined")
    assert sorted(r.key for r in joined.rows()) == sorted(r.key for r in whole.rows())
    assert {r.key: r for r in joined.rows()} == {r.key: r for r in whole.rows()}
    assert joined.spec().shard == "1/1"
    assert all((joined.path / r.journal).is_file() for r in joined.rows())
