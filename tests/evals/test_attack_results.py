"""`codasmith attacks` in parts: results in files, gone on with, summed up; a limit that holds."""

from __future__ import annotations

import json
import threading
import time

import pytest
from codasmith.agent.cli import app
from codasmith.evals import attack_runner
from codasmith.evals.attack_corpus import attacks
from codasmith.evals.attack_runner import Outcome, run_all
from codasmith.gate.verdict import StageResult, Verdict
from typer.testing import CliRunner

ATTACKS = attacks()
READ = [a.name for a in ATTACKS if a.family in ("B3", "C3") and a.stage == "read"]


def codasmith(*arguments):
    return CliRunner().invoke(app, ["attacks", *map(str, arguments)])


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def verdict(attack, status="checked"):
    return Verdict(
        task=attack.task, task_digest="", candidate_digest="", tier=attack.tier, status=status,
        stages=(StageResult(stage="read", outcome="passed"),),
    )  # fmt: skip


def test_parts_are_decided_into_files_and_summed_up(tmp_path):
    files = [tmp_path / "runs" / f"{part}.jsonl" for part in (1, 2)]
    for part, file in enumerate(files, 1):
        done = codasmith(*READ, "--cpu-only", "--shard", f"{part}/2", "--out", file)
        assert done.exit_code == 0, done.output
    assert [sorted(line["name"] for line in lines(file)) for file in files] == [READ[0::2], READ[1::2]]
    first = next(line for file in files for line in lines(file) if line["name"] == "b3_default_argument")
    wanted = {
        "family": "B3", "expected": "read: default-argument", "outcome": "caught", "stage": "read",
        "code": "default-argument", "environment": {}, "tier": attacks(["b3_default_argument"])[0].tier,
    }  # fmt: skip
    assert {key: first[key] for key in wanted} == wanted and 0 <= first["seconds"] < 60

    done = codasmith("--summary", *files)
    assert done.exit_code == 1  # for the others are missing
    assert f"{len(READ)} of {len(ATTACKS)} as expected" in done.output
    assert f"caught: {len(READ)} at read" in done.output and f"{len(READ)} on a machine without a GPU" in done.output
    missing = done.output.partition("not decided: ")[2].split()
    assert len(missing) == len(ATTACKS) - len(READ)


def test_what_is_decided_is_not_run_again_unless_its_attack_has_changed(tmp_path):
    file = tmp_path / "out.jsonl"
    assert codasmith(*READ, "--cpu-only", "--out", file).exit_code == 0
    kept = lines(file)
    changed, lost, *same = kept
    text = [json.dumps(changed | {"digest": "of another text"}), json.dumps(lost | {"found": "failed"})]
    file.write_text("\n".join([*text, *map(json.dumps, same), '{"name": "cut sho']))
    done = codasmith(*READ, "--cpu-only", "--out", file)
    assert done.exit_code == 0 and f"{len(same)} of {len(READ)} are decided" in done.output
    added = file.read_text().splitlines()[len(kept) + 1 :]
    assert sorted(json.loads(line)["name"] for line in added) == sorted([changed["name"], lost["name"]])


def test_what_came_out_otherwise_is_named_in_the_summary(tmp_path):
    file = tmp_path / "out.jsonl"
    codasmith(READ[0], "--cpu-only", "--out", file)
    (line,) = lines(file)
    there = {"gpu": "NVIDIA H200", "driver": "1", "cuda": "2", "torch": "3"}
    file.write_text(
        json.dumps(line | {"as_expected": False, "outcome": "unexpected", "found": "passed", "environment": there})
    )
    done = codasmith("--summary", file)
    assert done.exit_code == 1
    assert f"UNEXPECTED: {READ[0]}: passed, not {line['expected']}" in done.output
    assert "1 on NVIDIA H200 (driver 1, cuda 2, torch 3)" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--summary"], "--summary needs the files"),
        (["--summary", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--shard", "5/4"], "'5/4' is no part"),
    ],
)
def test_a_users_mistake_is_one_sentence(arguments, said):
    done = codasmith(*arguments)
    assert done.exit_code == 2 and said in " ".join(done.output.split()) and "Traceback" not in done.output


def test_no_attack_outlasts_the_limit_by_more_than_the_grace(monkeypatch):
    """One that hangs is given up, by ending what it waits for; what was decided before is kept."""
    ended = threading.Event()

    def through(attack, folder, cpu_only):
        if attack is ATTACKS[1]:
            assert ended.wait(30)
            return Outcome(attack, verdict(attack, "failed"), False)
        return Outcome(attack, verdict(attack), False)

    class Session:
        compiler = attack_runner.session().compiler
        close = staticmethod(ended.set)

    monkeypatch.setattr(attack_runner, "_through", through)
    monkeypatch.setattr(attack_runner, "session", Session)
    monkeypatch.setattr(attack_runner, "GRACE_S", 0.5)
    said, kept = [], []
    started = time.monotonic()
    outcomes = run_all(ATTACKS[:3], say=said.append, keep=kept.append, limit_s=0.5)
    assert time.monotonic() - started < 10
    assert {o.attack.name for o in outcomes} == {ATTACKS[0].name, ATTACKS[2].name} and kept == outcomes
    assert said[-1] == "the time is up: 1 of 3 were not decided"


def test_a_run_that_fails_leaves_nothing_behind_that_ends_what_comes_after_it(monkeypatch):
    def full(outcome):
        raise OSError("no space left on device")

    monkeypatch.setattr(attack_runner, "_through", lambda attack, *_: Outcome(attack, verdict(attack), False))
    with pytest.raises(OSError, match="no space left"):
        run_all(ATTACKS[:1], say=lambda line: None, keep=full, limit_s=600)
    assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer) and not t.finished.is_set()]


def test_only_what_passes_the_stages_without_a_gpu_goes_on_to_it_and_one_at_a_time(monkeypatch):
    busy, on_gpu = threading.Lock(), []

    def through(attack, folder, cpu_only):
        if not cpu_only:
            assert busy.acquire(blocking=False)
            time.sleep(0.01)
            on_gpu.append(attack.name)
            busy.release()
        return Outcome(attack, verdict(attack, "checked" if cpu_only else "passed"), False, 1.0)

    monkeypatch.setattr(attack_runner, "_through", through)
    monkeypatch.setattr(attack_runner, "_prepare", lambda chosen: None)
    monkeypatch.setattr(Verdict, "ok", property(lambda self: True))
    outcomes = run_all(ATTACKS[:6], cpu_only=False, say=lambda line: None)
    assert sorted(on_gpu) == sorted(a.name for a in ATTACKS[:6])
    assert {o.verdict.status for o in outcomes} == {"passed"} and {o.seconds for o in outcomes} == {2.0}
