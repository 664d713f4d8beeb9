"""`codasmith journal show` and `html`: what they tell, and that a hostile model's text stays text."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from codasmith.agent import campaign
from codasmith.agent.budget import Budget
from codasmith.agent.campaign_view import view
from codasmith.agent.cli import app
from codasmith.agent.errors import UserMistake
from codasmith.agent.journal_page import base_of, compared, render_page
from codasmith.agent.models import Usage
from codasmith.agent.plot import Point, plot
from typer.testing import CliRunner

HOSTILE = "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"
PAGE_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "a", "b", "dl", "dt", "dd", "div"),
    *("figure", "figcaption", "svg", "line", "text", "path", "circle", "span", "ol", "li", "details", "summary", "pre"),
}


@pytest.fixture
def run(tmp_path, task, fake_gate, scripted, monkeypatch):
    monkeypatch.setattr(campaign, "gate_and_admit", lambda *_: (fake_gate, None))

    def start(*answers, usage=None, **more):
        path = tmp_path / "run.jsonl"
        budget = Budget(attempts=len(answers))
        campaign.run(task, scripted(*answers, usage=usage), budget=budget, journal=path, **more)
        return path

    return start


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.attributes, self.stack = set(), [], []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.attributes += attributes
        if tag not in ("meta", "line", "path", "circle"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "path", "circle"):
            assert self.stack.pop() == tag


def cli(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_view_tells_findings_stages_and_costs(run, code):
    found = view(run("no code", code("WRONG a"), code("tax=1.20 b"), code("tax=1.10 c"), target_tax=1.0))
    assert [a.status for a in found.attempts] == ["refused", "refused", "passed", "passed"]
    assert [a.stage for a in found.attempts] == ["read", "interpret", "", ""]
    assert [a.shown for a in found.attempts] == [(), (1,), (2,), (3,)]
    assert found.attempts[1].finding == "line 1: o is off by 2. Halve it."
    assert [a.tokens for a in found.attempts] == [120] * 4 and found.best.number == 4
    assert found.ending.startswith("Ended: attempts; 4 attempts, 480 tokens (0 cached, 80 written), $0.0400")
    assert dict(found.facts)["goals"] == "tax 1"


def test_tokens_that_were_not_reported_are_not_shown_as_none_spent(run, code):
    found = view(run(code("fine"), usage=Usage(known=False)))
    assert found.attempts[0].tokens is None and found.attempts[0].tokens_text == "-"
    assert "tokens not reported" in found.ending


def test_the_page_holds_a_hostile_models_text_as_text_alone(run):
    answers = [HOSTILE, f"```python\nx = 1  # WRONG {HOSTILE}\n```", f"```python\nx = 2  # tax=1.2 {HOSTILE}\n```"]
    page = render_page(view(run(*answers, target_tax=1.0)))
    tags = Tags()
    tags.feed(page)
    assert tags.stack == [] and tags.seen <= PAGE_TAGS
    assert not any(name.startswith("on") or name in ("src", "srcdoc", "data") for name, _ in tags.attributes)
    assert all(value.startswith("#attempt-") for name, value in tags.attributes if name == "href")
    assert page.count("&lt;script&gt;alert(1)") >= 3
    assert "\u202e" not in page and "\x1b" not in page and "\\u202e" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "http" not in re.sub(r'http-equiv="', "", page)  # it loads nothing


def test_every_attempt_is_in_the_page_with_what_it_changed(run, code):
    path = run(code("WRONG a"), code("tax=1.20 b"), code("tax=1.20 b"), target_tax=1.0)
    page = render_page(view(path))
    for n in (1, 2, 3):
        assert f'id="attempt-{n}"' in page
    assert "source, against attempt 1" in page and "source, the same as attempt 2" in page
    assert page.count('class="row removed"') == 1 and page.count('class="row added"') == 1
    assert page.count("faulty") == 2  # the style, and the line of the finding
    assert page.count('role="img"') == 2 and "Tax over attempts" in page and "Tax over dollars spent" in page


def test_a_source_is_compared_with_the_attempt_that_its_question_told_of(run, code):
    path = run(code("tax=1.1 a"), code("tax=1.3 b"), code("tax=1.2 c"), strategy="best-of-n")
    third = view(path).attempts[2]
    assert base_of(third, view(path).attempts).number == 2
    told = third.__class__(**{**vars(third), "shown": (1,)})
    assert base_of(told, view(path).attempts).number == 1
    assert [(line.kind, line.number) for line in compared(view(path).attempts[0], third)] == [
        ("removed", None),
        ("added", 1),
    ]


def test_a_huge_file_is_cut_and_compared_in_time(run):
    files = ["\n".join(f"x{i % 7} = {i % k}" for i in range(9_000)) for k in (11, 13)]
    page = render_page(view(run(*(f"```python\n# WRONG\n{f[:60_000]}\n```" for f in files))))
    assert "more lines are left out" in page and len(page) < 600_000


def test_a_plot_places_the_less_tax_lower_and_draws_the_best_so_far():
    points = [Point(1, 1.3, "a", "passed"), Point(2, None, "b", "refused"), Point(3, 1.1, "c", "passed")]
    svg = plot(points, x="attempt", y="tax", whole=True)
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', svg)]
    assert heights[0] < heights[2] < heights[1]
    (path,) = re.findall(r'd="(M[^"]+)"', svg)
    assert path.endswith(f"V{heights[2]:.1f}") and ">refused<" in svg


@pytest.mark.parametrize("values", [[1.0], [None], [None, None], [0.0, 0.0], [1e-9, 1e9]])
def test_a_plot_of_few_or_odd_values_has_finite_places(values):
    svg = plot([Point(i, v, "a", "passed") for i, v in enumerate(values)], x="attempt", y="tax", whole=True)
    assert "nan" not in svg and "inf" not in svg and svg.count("<circle") == len(values)


def test_one_attempt_makes_no_plot(run, code):
    page = render_page(view(run(code("fine"))))
    assert "<figure>" not in page and 'id="attempt-1"' in page


def test_the_commands_show_a_campaign(run, code, tmp_path):
    path = run("no code", code("WRONG a"), code("fine"))
    status, out, err = cli("journal", "show", path)
    assert status == 0 and err == "" and "attempt 2, interpret: line 1: o is off by 2. Halve it." in out
    assert "The best is attempt 3" in out and "x = 1  # fine" in out and "Ended: good-enough" in out
    status, out, _ = cli("journal", "show", path, "--json")
    document = json.loads(out)
    assert status == 0 and [a["status"] for a in document["attempts"]] == ["refused", "refused", "checked"]
    status, out, _ = cli("journal", "html", path, "-o", tmp_path / "page.html")
    assert status == 0 and (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert cli("journal", "html", path, "-o", tmp_path / "no" / "page.html")[0] == 2


def test_a_damaged_journal_is_shown_with_a_warning_and_no_journal_is_a_sentence(run, code, tmp_path):
    path = run(code("WRONG a"), code("fine"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[3][:50] + "\n", *lines[4:]]))
    _, out, _ = cli("journal", "show", path)
    assert "line 4" in out and "unjudged" in out
    assert 'class="warning"' in render_page(view(path))
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(UserMistake, match="holds no run"):
        view(tmp_path / "notes.txt")
    status, _, err = cli("journal", "show", tmp_path / "notes.txt")
    assert status == 2 and "Traceback" not in err


def test_replay_on_the_command_line_ends_with_0_or_1(run, code, monkeypatch, fake_gate):
    monkeypatch.setattr("codasmith.agent.replay.gate_and_admit", lambda *_: (fake_gate, None))
    path = run(code("WRONG a"), code("fine"))
    status, out, _ = cli("replay", path)
    assert status == 0 and "2 of 2 attempts compared; all verdicts are equal" in out
    path.write_text(path.read_text().replace('"code": "wrong-values"', '"code": "other"'))
    status, out, _ = cli("replay", path, "--json")
    document = json.loads(out)
    assert status == document["exit_code"] == 1 and document["equal"] is False
    assert document["attempts"][0]["differences"][0].startswith("interpret: failed (other")


def test_looking_at_a_journal_needs_no_torch():
    script = (
        "import sys; import codasmith.agent.campaign_view, codasmith.agent.journal_page as p; p.environment('pages');"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
