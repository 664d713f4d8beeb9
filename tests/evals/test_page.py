import re
from itertools import pairwise

import pytest
from codasmith.evals.charts import Axis, log_ticks, scatter, strips
from codasmith.evals.hand_written import HandWritten
from codasmith.evals.intervals import Estimate
from codasmith.evals.page import fast_curve
from codasmith.evals.results import NOT_MEASURED, Results, results_of, write_results
from codasmith.evals.run_folder import RunFolder
from codasmith.evals.runs import run
from codasmith.evals.scores import score_rows
from codasmith.evals.table import percent, show
from rich.console import Console

SPEED = ("speed-up", "> 1x", "tax", "GPU second", "milliseconds", "of hand-written")
HOSTILE = "</pre><script>alert(1)</script>"


class Hostile:
    name = "evil</td><script>alert(2)</script>"

    def __init__(self, inner):
        self.inner = inner

    def answer(self, messages, **more):
        answer = self.inner.answer(messages, **more)
        text = answer.text.replace("x = 1", f'x = "{HOSTILE}"').replace("Some words.", HOSTILE)
        return answer.model_copy(update={"text": text})


def made(path, four, asked, gate, dice):
    def make(name, tier):
        if name == "hand-written":
            return HandWritten(tier)
        return Hostile(dice(name, 0.6)) if name == Hostile.name else dice(name, 0.6)

    folder = RunFolder(path)
    run(asked, four, folder, make=make, gate=gate)
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory, four, spec, gate, dice):
    folder = made(tmp_path_factory.mktemp("run"), four, spec(four, "m", Hostile.name), gate, dice)
    return folder, write_results(folder, four)


@pytest.fixture(scope="module")
def checked(tmp_path_factory, four, spec, gate, dice):
    def without_gpu(task, source, **more):
        return gate(task, source if "WRONG" in source else "CHECKED", **more)

    folder = made(tmp_path_factory.mktemp("cpu"), four, spec(four, "m", cpu_only=True), without_gpu, dice)
    return folder, write_results(folder, four)


def printed(results):
    console = Console(width=200, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    show(console, results)
    return console.export_text()


def test_results_json_reads_back_as_the_same_document(measured):
    folder, results = measured
    text = (folder.path / "results.json").read_text()
    assert Results.model_validate_json(text).model_dump_json() == results.model_dump_json()
    assert len(results.cells) == 4 * 5 and results.measured and len(results.environments) == 1


def test_page_needs_nothing_but_itself(measured):
    page = (measured[0].path / "report.html").read_text()
    assert not re.search(r"<link|<img|<iframe|@import|url\(|<script[^>]+src", page)
    assert not re.search(r"https?://", page)
    targets = re.findall(r'href="#([^"]+)"', page)
    assert len(targets) == 4 * 5 and set(targets) == set(re.findall(r'<details class="sample" id="([^"]+)"', page))


def test_what_models_write_is_text_and_only_the_pages_script_may_run(measured):
    page = (measured[0].path / "report.html").read_text()
    assert page.count("<script") == 1 and "alert(1)" in page and "alert(2)" in page
    assert "&lt;script&gt;alert(1)" in page and "<b>2</b>" not in page
    import base64
    import hashlib

    script = re.search(r"<script>(.*)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_page_links_every_sample_to_a_journal_that_is_there(measured):
    from urllib.parse import unquote

    folder, _ = measured
    links = set(re.findall(r'href="(journals/[^"]+)"', (folder.path / "report.html").read_text()))
    assert len(links) == 4 * (2 * 2 + 3)
    assert all((folder.path / unquote(link)).is_file() for link in links)


def test_page_shows_source_verdict_and_transcript(measured):
    page = (measured[0].path / "report.html").read_text()
    assert "gelu" not in page and "Source of sample" in page and "Transcript of sample" in page
    assert "from codasmith.primitives import" in page  # a hand-written epilogue
    assert page.count("<svg viewBox") == 3


def test_scores_of_speed_stand_in_the_table_where_a_gpu_measured(measured):
    text = printed(measured[1])
    assert all(word in text for word in SPEED[:4]) and "torch.compile" in text and "hand-written" in text
    assert "builtin:tracer" in text and "all 4 tasks" in text


def test_without_a_gpu_nothing_is_said_of_speed(checked):
    folder, results = checked
    text, page = printed(results), (folder.path / "report.html").read_text()
    assert NOT_MEASURED[:40] in text and NOT_MEASURED[:40] in page
    body = page[page.index("<h1>") :].replace(NOT_MEASURED, "").replace("how fast", "")
    for word in SPEED:
        assert word not in text.replace(NOT_MEASURED, ""), word
        assert word not in re.sub(r"<pre>.*?</pre>|<script>.*?</script>|The gate: .*?</p>", "", body, flags=re.S), word
    assert "checked@1" in text and "pass@1" not in text and "torch.compile" not in text
    assert not results.measured and all(s.speedup_all is None for s in results.scores)


def test_of_a_run_that_was_stopped_only_what_every_contestant_has_is_scored(measured, four):
    folder, whole = measured
    lacking = [("m", "rmsnorm_swiglu", 1), ("m", "rmsnorm_swiglu", 2), (Hostile.name, "linear_lse", 2)]
    rows = [r for r in folder.rows() if (r.model, r.task, r.sample) not in lacking]
    results = results_of(folder.spec(), four.spec, rows)
    assert results.unscored == ("rmsnorm_swiglu",) and not whole.unscored
    counted = [r for r in rows if r.task != "rmsnorm_swiglu" and (r.task, r.sample) != ("linear_lse", 2)]
    alone = score_rows(counted, published=[e.name for e in four.spec.tasks if e.known])
    assert (list(results.scores), list(results.pairs)) == alone
    assert {s.label: s.samples for s in results.scores if s.label in ("m", Hostile.name)} == {"m": 5, Hostile.name: 5}
    notes = " ".join(results.notes)
    assert "3 of 28 samples were not made" in notes and "are scored: 3 tasks" in notes
    assert "Not scored, 1 tasks: rmsnorm_swiglu." in notes and "m (closed): 6 of 8 samples are there." in notes
    assert {c.task for c in results.cells} == set(four.tasks), "what is there is shown"
    assert not any("not finished" in n for n in whole.notes)


def test_a_contestant_without_any_row_keeps_nobody_from_being_scored(measured, four):
    folder, _ = measured
    rows = [r for r in folder.rows() if r.model != "m"]
    results = results_of(folder.spec(), four.spec, rows)
    assert not results.unscored and "m (closed): 0 of 8 samples are there; it is not scored." in results.notes
    assert {s.tasks for s in results.scores} == {4}


def test_samples_that_ended_for_want_of_an_answer_are_noted(measured, four):
    folder, before = measured
    rows = [r.model_copy(update={"ended": "model"}) if r.model == "m" and r.sample == 2 else r for r in folder.rows()]
    notes = results_of(folder.spec(), four.spec, rows).notes
    assert any(n.startswith("m (closed): 4 of its 8 samples ended because it gave no further answer") for n in notes)
    assert not any("no further answer" in n for n in before.notes)


def test_rows_of_different_machines_are_called_so(measured, four):
    folder, _ = measured
    rows = folder.rows()
    rows[0] = rows[0].model_copy(update={"environment": {"gpu": "NVIDIA H100"}})
    assert any("2 different machines or versions" in n for n in results_of(folder.spec(), four.spec, rows).notes)


def test_fast_curve_is_the_share_at_each_p(measured):
    rows = [r for r in measured[0].rows() if r.model == "hand-written"]
    assert fast_curve(rows, [1.0, 1.24, 1.26]) == [(1.0, 1.0), (1.24, 1.0), (1.26, 0.0)]


def test_where_torch_compile_was_not_timed_anew_or_at_all_is_noted(measured, four):
    folder, before = measured
    rows = folder.rows()
    assert not any("torch.compile" in n for n in before.notes)
    at = next(i for i, r in enumerate(rows) if r.timed)
    (timed,) = rows[at].timed
    eager = {k: v for k, v in timed.milliseconds.items() if k != "compile"}
    for changes, said in (
        ({"kept": True}, "torch.compile's time is that of an earlier one"),
        ({"milliseconds": eager, "baseline": "eager"}, f"the best baseline is therefore eager: {rows[at].task}."),
    ):
        other = rows[at].model_copy(update={"timed": (timed.model_copy(update=changes),)})
        notes = results_of(folder.spec(), four.spec, [*rows[:at], other, *rows[at + 1 :]]).notes
        assert sum(said in n for n in notes) == 1


def test_labels_of_models_of_equal_cost_and_score_do_not_cover_each_other():
    points = {n: (1.0, Estimate(value=1.1, low=1.1, high=1.1, tasks=9)) for n in ("model-a", "model-b", "model-c")}
    drawn = scatter(points, Axis(0.5, 2.0, (0.5, 1, 2), "dollars", log=True), Axis(1, 1.2, (1, 1.2), "x"), list(points))
    places = re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)"[^>]*>model-', drawn)
    assert len(places) == len(set(places)) == 3
    heights = sorted(float(y) for x, y in places if x == places[0][0])
    assert all(b - a >= 12 for a, b in pairwise(heights))


@pytest.mark.parametrize("high", [1.1, 1.2, 1.5, 3.0])
def test_numbers_below_the_strips_do_not_run_together(high):
    steps = [t for t in (1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0) if t <= high]
    drawn = strips({"m": [("t", 1.04)]}, Axis(0.97, high, steps, "tax", log=True), mark=1.0)
    placed = re.findall(r'<text x="([0-9.]+)"[^>]*>([0-9.]+)</text>', drawn)
    assert placed[0][1] == "1" and float(placed[-1][1]) == high and len(placed) >= 3
    spans = [(float(x) - 3.25 * len(text), float(x) + 3.25 * len(text)) for x, text in placed]
    assert all(start > end for (_, end), (start, _) in pairwise(spans))


def test_the_charts_stand_right_behind_the_first_table(measured):
    page = (measured[0].path / "report.html").read_text()
    first, drawn, second = (page.index(part) for part in ("<table", 'id="charts"', "<h3>Speed over"))
    assert first < drawn < second and page.count("<table", first, drawn) == 1


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.5, 0.75, "62 % (50-75)"), (-0.25, 0.75, "62 % (-25 to 75)"), (-1, -1, "62 % (-100 to -100)")],
)
def test_an_interval_below_nothing_reads_as_two_numbers(low, high, said):
    assert percent(Estimate(value=0.62, low=low, high=high, tasks=9)) == said


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.03, 0.3, [0.02, 0.05, 0.1, 0.2, 0.5]),
        (1, 1, [1, 2]),
        (1e-5, 3, [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10]),
        (999.9999999999999, 1000, [500, 1000]),  # whose logarithm is 3.0
    ],
)
def test_logarithmic_ticks_cover_the_range_with_few_numbers(low, high, ticks):
    assert log_ticks(low, high) == ticks
