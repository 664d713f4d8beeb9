"""A whole run over several machines, one of which was stopped, joined and published."""

import json
import re

import pytest
from codasmith.agent.cli import app
from codasmith.agent.errors import UserMistake
from codasmith.agent.models import ModelError
from codasmith.evals.archive import ARCHIVE, events_of
from codasmith.evals.asked import command_of
from codasmith.evals.hand_written import HandWritten
from codasmith.evals.jobs import jobs
from codasmith.evals.publish import PUBLISHED, publish
from codasmith.evals.results import write_results
from codasmith.evals.run_folder import RunFolder
from codasmith.evals.runs import run
from typer.testing import CliRunner


class Stopped:
    """A model whose server goes away after some answers."""

    def __init__(self, inner, left):
        self.inner, self.left, self.name = inner, left, inner.name

    def answer(self, messages, **more):
        if not self.left:
            raise ModelError("the server went away", "unreachable")
        self.left.pop()
        return self.inner.answer(messages, **more)


@pytest.fixture(scope="module")
def parts(tmp_path_factory, public, spec, gate, dice):
    """The public set by two models and the baselines, in four parts; the last loses a model after ten answers."""
    folder = tmp_path_factory.mktemp("parts")
    for i in (1, 2, 3, 4):
        left = list(range(10))

        def make(name, tier, part=i, left=left):
            if name == "hand-written":
                return HandWritten(tier)
            return Stopped(dice(name, 0.6), left) if (part, name) == (4, "b") else dice(name, 0.6)

        asked = spec(public, "a", "b", samples=1, attempts=2, shapes=1, shard=f"{i}/4")
        unfinished = run(asked, public, RunFolder(folder / str(i)), make=make, gate=gate, workers=8)
        assert {u.job.model for u in unfinished} == ({"b"} if i == 4 else set())
    return [folder / str(i) for i in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def published(parts, tmp_path_factory):
    out = tmp_path_factory.mktemp("docs") / "results" / "h200"
    return publish(parts, out), out


def test_a_run_of_the_whole_set_in_four_parts_is_published_with_what_was_not_run(published, public, spec):
    results, out = published
    assert sorted(p.name for p in out.iterdir()) == sorted(PUBLISHED)
    asked = len(jobs(spec(public, "a", "b", samples=1), public))
    rows = (out / "results.jsonl").read_text().splitlines()
    lost = {t for t in public.tasks if not any(c.task == t and c.contestant == "b" for c in results.cells)}
    assert lost and len(rows) == asked - len(lost)
    assert set(results.unscored) == lost
    scored = len(public.tasks) - len(lost)
    assert {s.tasks for s in results.scores if s.label in ("a", "b", "hand-written")} == {scored}
    notes, page = " ".join(results.notes), (out / "report.html").read_text()
    for text in (notes, page):
        assert f"{len(lost)} of {asked} samples were not made" in text
        assert f"Not scored, {len(lost)} tasks: " in text
    assert all(re.search(rf"{task}.{{0,250}}‡", page, re.S) for task in lost)


def test_what_is_published_is_small_and_holds_sources_verdicts_and_transcripts(published):
    results, out = published
    assert sum(p.stat().st_size for p in out.iterdir()) < 5_000_000
    page = (out / "report.html").read_text()
    assert page.count("Transcript of sample") == page.count('<details class="sample"') == len(results.cells)
    assert f'href="{ARCHIVE}"' in page and 'href="journals/' not in page
    row = next(json.loads(line) for line in (out / "results.jsonl").open() if '"model":"a"' in line)
    names = [event["event"] for event in events_of(out, row["journal"])]
    assert names[0] == "start" and "verdict" in names and "answer" in names


def test_publishing_again_gives_the_same_bytes_and_reporting_keeps_the_transcripts(published, parts):
    _, out = published
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    publish(parts, out)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    write_results(RunFolder(out))
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_nothing_else_is_overwritten(parts, tmp_path):
    (tmp_path / "thesis.txt").write_text("words")
    with pytest.raises(UserMistake, match=r"holds 'thesis.txt', which is no published result"):
        publish(parts[:1], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_command_line_publishes(parts, tmp_path):
    words = ["evals", "publish", *map(str, parts[:1]), "--out", str(tmp_path / "one")]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "not finished" in result.output and (tmp_path / "one" / ARCHIVE).is_file()


def test_the_page_says_the_command_that_makes_the_run_again(published, four, spec):
    asked = "<code>codasmith eval --model a --model b --budget 2 --samples 1 --target-tax 1.02 --shapes 1</code>"
    assert asked in (published[1] / "report.html").read_text()
    more = spec(four, "command:./my agent", set="held", tasks=("t1",), tiers=("closed", "cutedsl"), cpu_only=True)
    assert command_of(more) == (
        "codasmith eval --model 'command:./my agent' --budget 3 --samples 2 --set held --task t1 "
        "--tier closed --tier cutedsl --cpu-only"
    )
