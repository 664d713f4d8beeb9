import pytest
from codasmith.evals.compare import compare, rank_ranges
from codasmith.evals.rows import Row, Timed
from codasmith.evals.scores import score_rows


def row(model, task, sample=1, *, tax=None, fast=None, status=None, **more):
    """A sample that passed where tax is given, else was refused."""
    timed = ()
    if tax is not None:
        times = {"kernel": tax, "cublas": 1.0, "bare a": 1.1, "compile": tax * fast, "eager": tax * fast * 2}
        timed = (Timed(workload="M1", schedule="a", milliseconds=times, tax=tax, baseline="compile", speedup=fast),)
    values = {"tier": "closed", "task_digest": "d", "level": 1, "family": "pointwise", "ended": "attempts"}
    status = status or ("passed" if tax is not None else "refused")
    values |= {"model": model, "task": task, "sample": sample, "status": status, "tax": tax, "speedup": fast}
    return Row.model_validate({**values, "timed": timed, **more})


def scores(rows, **options):
    return {s.label: s for s in score_rows(rows, **options)[0]}


def test_unsolved_tasks_count_as_the_baseline_and_missing_ones_do_not():
    found = scores([row("a", "t1", tax=1.0, fast=4.0), row("a", "t2")])["a"]
    assert found.speedup_all.value == pytest.approx(2.0)
    assert found.speedup_solved.value == pytest.approx(4.0)
    assert found.tasks == 2
    assert scores([row("a", "t1", tax=1.0, fast=4.0)])["a"].speedup_all.value == pytest.approx(4.0)


def test_fast_p_needs_to_pass_and_to_be_strictly_faster():
    rows = [
        row("a", "t1", tax=1.0, fast=1.0),
        row("a", "t2", tax=1.0, fast=1.2),
        row("a", "t3", tax=1.0, fast=1.6),
        row("a", "t4"),
    ]
    fast = scores(rows)["a"].fast
    assert [fast[p].value for p in ("1", "1.1", "1.25", "1.5")] == [0.5, 0.5, 0.25, 0.25]


def test_shares_within_a_tax_are_of_all_samples():
    rows = [row("a", "t1", 1, tax=1.02, fast=1.0), row("a", "t1", 2, tax=1.06, fast=1.0), row("a", "t2", 1)]
    within = scores(rows)["a"].within
    assert (within["1.02"].value, within["1.05"].value, within["1.10"].value) == (0.25, 0.25, 0.5)


def test_share_of_the_hand_written_kernel_compares_taxes_where_both_solved():
    rows = [
        *(row("hand-written", "t1", tax=1.0, fast=1.0), row("a", "t1", tax=1.25, fast=1.0)),
        *(row("hand-written", "t2"), row("a", "t2", tax=2.0, fast=1.0)),
    ]
    assert scores(rows)["a"].of_hand_written.value == pytest.approx(0.8)
    assert scores(rows)["hand-written"].of_hand_written.value == pytest.approx(1.0)


def test_costs_are_over_what_passed_and_unknown_ones_are_left_out():
    attempts = [{"number": 1, "status": "refused"}, {"number": 2, "status": "passed"}]
    spent = {"attempts": attempts, "input_tokens": 90, "output_tokens": 10, "dollars": 0.5, "gpu_seconds": 3.0}
    rows = [row("a", "t1", tax=1.0, fast=1.0, **spent), row("a", "t2", **spent)]
    a = scores(rows)["a"]
    assert (a.attempts.value, a.tokens.value, a.dollars.value, a.gpu_seconds.value) == (4, 200, 1.0, 6.0)
    assert a.total_dollars == 1.0 and a.incomplete_costs == ""
    b = scores([row("b", "t1", tax=1.0, fast=1.0, **spent, unpriced=True)])["b"]
    assert b.dollars is None and "prices" in b.incomplete_costs


def test_libraries_stand_in_the_table_by_their_own_times():
    rows = [row("a", "t1", tax=1.0, fast=1.5), row("b", "t1", tax=2.0, fast=0.75), row("b", "t2")]
    found = scores(rows)
    compiled, eager = found["torch.compile"], found["eager"]
    assert compiled.library and compiled.tasks == 1 and compiled.rank is None and not compiled.pass_at
    assert compiled.speedup_all.value == pytest.approx(1.0) and compiled.fast["1"].value == 0.0
    assert compiled.tax.value == pytest.approx(1.5)
    assert eager.speedup_all.value == pytest.approx(0.5)


def test_groups_split_the_tasks_by_level_family_and_publication():
    rows = [row("a", "t1", tax=1.0, fast=2.0), row("a", "t2", level=3, family="loss")]
    groups = {(g.by, g.value): g for g in scores(rows, published=["t2"])["a"].groups}
    assert groups["level", "1"].pass_1.value == 1.0 and groups["level", "3"].pass_1.value == 0.0
    assert groups["family", "loss"].speedup_all.value == pytest.approx(1.0)
    assert groups["published", "yes"].tasks == 1 and groups["published", "no"].speedup_all.value == pytest.approx(2.0)


def test_tiers_are_contestants_of_their_own():
    rows = [row("a", "t1", tax=1.0, fast=2.0), row("a", "t1", tier="cutedsl")]
    found = scores(rows)
    assert found["a"].pass_at[1].value == 1.0 and found["a (cutedsl)"].pass_at[1].value == 0.0


def test_without_a_gpu_checked_is_scored_and_nothing_of_speed():
    rows = [row("a", "t1", status="checked"), row("a", "t2")]
    (found,) = score_rows(rows, cpu_only=True)[0]
    assert found.pass_at[1].value == 0.5
    assert not found.fast and not found.within and found.tax is None and found.speedup_all is None
    assert found.gpu_seconds is None and all(g.speedup_all is None for g in found.groups)


def test_what_is_only_checked_does_not_pass_where_a_gpu_measured():
    assert scores([row("a", "t1", status="checked")])["a"].pass_at[1].value == 0.0


def test_order_of_rows_changes_nothing():
    rows = [row(m, f"t{t}", s, tax=1 + t / 50, fast=1 + s / 10) for m in "ab" for t in range(5) for s in (1, 2)]
    assert score_rows(rows) == score_rows(rows[::-1])


def test_pairs_are_compared_on_common_tasks_and_ranks_follow_significance():
    good = [row("good", f"t{i}", tax=1.0, fast=1.5 + i / 100) for i in range(12)]
    bad = [row("bad", f"t{i}", tax=1.0, fast=1.1) for i in range(12)]
    same = [row("same", f"t{i}", tax=1.0, fast=1.1 + (-1) ** i / 100) for i in range(10)]
    found = compare({"good": good, "bad": bad, "same": same}, cpu_only=False)
    by = {(p.first, p.second): p for p in found}
    assert by["bad", "good"].tasks == 12 and by["bad", "same"].tasks == 10
    assert by["bad", "good"].difference.value == pytest.approx(1.1 / 1.555, rel=0.01)
    assert by["bad", "good"].p == pytest.approx(2 / 2**12) and by["bad", "good"].p_corrected > by["bad", "good"].p
    assert by["bad", "same"].p > 0.5
    assert rank_ranges(["good", "bad", "same"], found, False) == {"good": (1, 1), "bad": (2, 3), "same": (2, 3)}


def test_best_scores_come_first():
    rows = [row("slow", "t1", tax=1.0, fast=1.1), row("quick", "t1", tax=1.0, fast=1.9)]
    order = [s.label for s in score_rows(rows)[0]]
    assert order.index("quick") < order.index("slow") < order.index("torch.compile")
