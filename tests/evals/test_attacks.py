"""The corpus of attacks: each is caught where its file says, or has no effect; honest candidates are let through."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from importlib.resources import files

import pytest
from codasmith.agent.models.tracer import TracerError, answer
from codasmith.evals.attack_runner import attacks, run
from codasmith.evals.honest import OTHER_WORDS, other_words
from codasmith.gate.interpret import interpret_stage
from codasmith.gate.read import read_stage
from codasmith.primitives import read, to_source
from codasmith.tasks import catalogue, load_task
from codasmith.templates import landlock, syscalls

ATTACKS = attacks()
TASKS = catalogue()
FAMILIES = {
    f"{letter}{n}" for letter, most in zip("ABCDEF", (10, 6, 10, 4, 6, 5), strict=True) for n in range(1, most + 1)
}
CLOSED = [a for a in ATTACKS if a.tier == "closed"]
READ = [a for a in ATTACKS if a.stage in ("read", "interpret")]
COMPILED = [a for a in ATTACKS if a.stage not in ("read", "interpret")]
HAND_WRITTEN = {
    f.name[:-3]: f.read_text()
    for f in files("codasmith.verified_kernels.hand_written").iterdir()
    if f.name[:-3] in TASKS
}


def names(chosen):
    return [a.name for a in chosen]


def test_every_family_of_the_threat_model_has_an_attack_and_there_are_controls():
    assert {a.family for a in ATTACKS} == FAMILIES | {"control"}
    assert {(a.tier, bool(a.stage)) for a in ATTACKS if a.family == "control"} == {
        ("closed", False),
        ("closed", True),
        ("cutedsl", False),
        ("cutedsl", True),
    }
    assert all(a.why.endswith((".", ")")) and a.title.endswith(".") and a.task in TASKS for a in ATTACKS)


@pytest.mark.parametrize("attack", READ, ids=names(READ))
def test_what_is_read_or_interpreted_is_caught_before_anything_runs(attack, tmp_path):
    mark = tmp_path / attack.name
    result, graph = read_stage(TASKS[attack.task], attack.source(mark), attack.tier)
    if attack.stage == "interpret":
        assert result.outcome == "passed" and graph is not None, result.finding
        result = interpret_stage(TASKS[attack.task], graph)
    assert result.outcome == "failed" and result.finding.code == attack.code, result.finding
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.skipif(
    not landlock.version() or bool(syscalls.available()), reason="needs a kernel with Landlock, and libseccomp"
)
@pytest.mark.parametrize("attack", COMPILED, ids=names(COMPILED))
def test_what_is_compiled_is_caught_there_or_has_no_effect(attack, tmp_path):
    outcome = run(attack, tmp_path)
    assert outcome.as_expected, str(outcome)
    if not attack.stage or attack.needs_gpu:
        stage = next(s for s in outcome.verdict.stages if s.stage == "compile")
        assert "warning" not in stage.data


@pytest.mark.gpu
@pytest.mark.parametrize("attack", COMPILED, ids=names(COMPILED))
def test_the_whole_gate_refuses_what_only_a_gpu_shows(attack, tmp_path):
    outcome = run(attack, tmp_path, cpu_only=False)
    assert outcome.as_expected, str(outcome)
    assert outcome.verdict.status == ("refused" if attack.stage else "passed")


# --- a closed candidate is never executed -----------------------------------------------------------

PAYLOAD = "__import__('pathlib').Path({mark!r}).touch()"


def _armed(attack, mark):
    """The attack with a payload as its first statement after the docstring, where importing it would run it first."""
    text = attack.source(mark.with_name("other"))
    end = text.index('"""', text.index('"""') + 3) + 3
    return text[:end] + "\n" + PAYLOAD.format(mark=str(mark)) + text[end:]


@pytest.mark.parametrize("attack", ATTACKS, ids=names(ATTACKS))
def test_no_candidate_of_the_closed_tier_is_executed(attack, tmp_path):
    task = TASKS[attack.task]
    for number, source in enumerate((attack.source(tmp_path / "plain"), _armed(attack, tmp_path / "armed"))):
        result, graph = read_stage(task, source, "closed")
        if number:
            assert result.outcome == "failed" and graph is None
        if graph is not None:
            interpret_stage(task, graph)
    assert list(tmp_path.iterdir()) == []


def test_the_mark_is_left_where_a_candidate_is_executed(tmp_path):
    """The control of the test above: Python itself leaves the mark, whatever comes after it in the file."""
    for attack in (a for a in CLOSED if a.code not in ("syntax",)):
        mark = tmp_path / attack.name
        try:
            code = compile(_armed(attack, mark), attack.name, "exec")
        except SyntaxError:  # a name like `global` before its use; such a file could not run either
            continue
        with contextlib.suppress(BaseException):
            exec(code, {"__name__": attack.name})
        assert mark.exists(), attack.name


def test_the_source_that_is_compiled_holds_nothing_of_the_candidates_text():
    from codasmith.gate.frame import frame_of
    from codasmith.templates.generate import generate
    from codasmith.templates.schedule import SCHEDULES

    attack = next(a for a in ATTACKS if a.name == "e4_code_in_a_docstring")
    source = attack.text.replace("def kernel", "def distinctive_name").replace("@MARK@", "distinctive_text")
    _, graph = read_stage(load_task(attack.task), source, "closed")
    made = generate(graph, frame_of(load_task(attack.task), "bf16"), SCHEDULES[0])
    assert "distinctive" not in made.source


# --- honest candidates ------------------------------------------------------------------------------

_COMMENTED = re.compile(r"^(    return .*)$", re.MULTILINE)


def _renamed(source):
    """The same kernel by another author: names, a comment and a helper of his own."""
    source = re.sub(r"(@epilogue\ndef )\w+", r"\1mine", source)
    return _COMMENTED.sub(
        r"    # the outputs\n\1",
        source.replace("@epilogue", "SCALE = 1.0\n\n\ndef same(v):\n    return v * SCALE\n\n\n@epilogue", 1),
    )


def honest():
    found = {}
    for name, source in HAND_WRITTEN.items():
        found[f"{name} by hand"] = name, source
        found[f"{name} in other words"] = name, _renamed(source)
        found[f"{name} written back"] = name, to_source(read(source, list(TASKS[name].operands.values())), name)
    for number, (name, source) in enumerate(other_words()):
        found[f"{name} differently, {number}"] = name, source
    return found


HONEST = honest()


@pytest.mark.parametrize("which", HONEST)
def test_no_honest_candidate_is_refused(which):
    _passes(*HONEST[which])


@pytest.mark.parametrize("name", TASKS)
def test_no_answer_of_the_tracer_is_refused(name):
    try:
        source = answer(TASKS[name])
    except TracerError as error:
        pytest.skip(f"out of the tracer's reach: {error}")
    _passes(name, source)


def _passes(name, source):
    result, graph = read_stage(TASKS[name], source, "closed")
    assert result.outcome == "passed", str(result.finding)
    result = interpret_stage(TASKS[name], graph)
    assert result.outcome == "passed", str(result.finding)


def test_there_are_enough_honest_candidates():
    sources = {source for _, source in HONEST.values()}
    assert len(sources) >= 200
    graphs = {(n, read(s, list(TASKS[n].operands.values())).digest) for n, s in other_words()}
    by_hand = {(n, read(s, list(TASKS[n].operands.values())).digest) for n, s in HAND_WRITTEN.items()}
    assert len(graphs - by_hand) >= 50  # other operations in another order, not other letters


def test_no_two_honest_candidates_in_other_words_are_the_same_file():
    assert len({source for _, source in other_words()}) == len(OTHER_WORDS) >= 50


def test_the_runner_says_what_it_found_and_fails_on_an_unknown_name():
    def runs(*arguments):
        command = [sys.executable, "-m", "codasmith.evals.attack_runner", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    done = runs("b3_default_argument", "c1_identity")
    assert done.returncode == 0, done.stderr
    assert "caught at read: default-argument" in done.stdout and "2 of 2 as expected" in done.stdout
    wrong = runs("nothing")
    assert (
        wrong.returncode == 1
        and "there is no attack called nothing" in wrong.stderr
        and "Traceback" not in wrong.stderr
    )


def test_the_command_says_where_each_was_caught_and_ends_with_one_if_one_was_not(monkeypatch):
    import dataclasses
    import json

    from codasmith.agent.cli import app
    from codasmith.evals import attack_runner
    from typer.testing import CliRunner

    def codasmith(*arguments):
        return CliRunner().invoke(app, ["attacks", *arguments])

    done = codasmith("c1_identity", "b3_default_argument", "--cpu-only")
    assert done.exit_code == 0 and "2 of 2 as expected: 2 attacks and 0 controls" in done.output
    done = codasmith("--family", "B3", "--family", "c1", "--json", "--limit-s", "0")
    document = json.loads(done.stdout)
    assert document["chosen"] > 6 and {a["family"] for a in document["attacks"]} <= {"B3", "C1"}
    assert codasmith("nothing_like_it").exit_code == 2
    assert codasmith("--family", "Z").exit_code == 2
    changed = dataclasses.replace(next(a for a in ATTACKS if a.name == "c1_identity"), code="another")
    monkeypatch.setattr(attack_runner, "attacks", lambda names: [changed])
    done = codasmith()
    assert done.exit_code == 1 and "UNEXPECTED: interpret: ignored-operand, not interpret: another" in done.output
