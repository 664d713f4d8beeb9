import errno
import json
import os
import resource
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from codasmith.agent.errors import MachineCannot, UserMistake
from codasmith.agent.history import History
from codasmith.agent.journal import Journal, read, seconds_active
from codasmith.gate.verdict import Verdict


def test_events_come_back_in_order_with_numbers_and_times(tmp_path):
    path = tmp_path / "new" / "run.jsonl"
    with Journal(path) as journal:
        journal.write("start", task="t")
        journal.write("answer", text="two\nlines, ü, \ud800")
    events, problems = read(path)
    assert problems == []
    assert [(e["n"], e["event"]) for e in events] == [(1, "start"), (2, "answer")]
    assert events[1]["text"] == "two\nlines, ü, \ud800"
    assert datetime.fromisoformat(events[0]["time"]).tzinfo is not None


def test_an_opened_journal_is_appended_to(tmp_path):
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal:
        journal.write("start")
    before = path.read_bytes()
    with Journal(path) as journal:
        assert journal.write("resumed")["n"] == 2
    assert path.read_bytes().startswith(before)
    assert [e["event"] for e in read(path)[0]] == ["start", "resumed"]


@pytest.mark.parametrize(
    "damage",
    [
        b'{"n": 2, "time": "2026-01-01T00:00:00+00:00", "event": "ans',
        b"\x00\xff\xfe",
        b"[1, 2]",
        b'{"n": 2, "event": "answer"}',
        b'{"n": 2, "time": "2026-01-01T00:00:00", "event": "answer"}',
        b'{"n": "2", "time": "2026-01-01T00:00:00+00:00", "event": "answer"}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_reported_by_number_and_the_rest_counts(tmp_path, damage):
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal:
        journal.write("start")
        journal.write("prompt")
    first, second = path.read_bytes().splitlines()
    path.write_bytes(first + b"\n" + damage + b"\n" + second + b"\n")
    events, problems = read(path)
    assert [e["event"] for e in events] == ["start", "prompt"]
    assert len(problems) == 1 and problems[0].startswith("line 2 of ")


def test_writing_after_a_cut_line_loses_neither(tmp_path):
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal:
        journal.write("start")
    with path.open("ab") as file:
        file.write(b'{"n": 2, "time": "2026')
    with Journal(path) as journal:
        journal.write("resumed")
    events, problems = read(path)
    assert [e["event"] for e in events] == ["start", "resumed"]
    assert len(problems) == 1


def test_opening_a_file_for_reading_what_it_is_changes_nothing(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no journal")
    with Journal(path) as journal:
        assert journal.events == [] and len(journal.problems) == 1
    assert path.read_text() == "no journal"


def test_values_of_keys_are_never_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghij")
    monkeypatch.setenv("SOME_API_KEY", 'quoted"and\\slashed')
    monkeypatch.setenv("LOCAL_API_KEY", "EMPTY")
    monkeypatch.setenv("PGPASSWORD", "correct horse")
    monkeypatch.setenv("openai_apikey", "staple-battery")
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal:
        assert journal.write("note", a="correct horse", b="staple-battery")["a"] == "[PGPASSWORD]"
        written = journal.write(
            "error", message="bad key sk-abcdefghij.", more=[{"k": 'x quoted"and\\slashed y'}], note="EMPTY"
        )
    first, text = path.read_text().splitlines()
    assert "staple" not in first
    assert "sk-abcdefghij" not in text and "slashed" not in text
    assert written["message"] == "bad key [OPENAI_API_KEY]."
    assert json.loads(text)["note"] == "EMPTY"  # too short for a secret: words stay readable


def test_the_key_of_a_variable_that_the_run_names_is_never_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OUR_TEAM", "sk-of-the-team")
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal:
        journal.write("start", model_options={"key_env": "OUR_TEAM"})
        journal.write("answer", text="your key is sk-of-the-team")
    with Journal(path) as journal:
        journal.write("error", message="sk-of-the-team")
    assert "sk-of" not in path.read_text() and path.read_text().count("[OUR_TEAM]") == 2


def test_one_journal_has_one_writer(tmp_path):
    path = tmp_path / "run.jsonl"
    with Journal(path), pytest.raises(UserMistake, match="another process"):
        Journal(path)
    Journal(path).close()


def test_a_place_that_is_none_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserMistake, match=r"cannot be written .*--journal"):
        Journal(tmp_path / "file" / "run.jsonl")
    for place in (tmp_path, Path("/proc/run.jsonl")):
        with pytest.raises(UserMistake, match="cannot be written"):
            Journal(place)


def test_a_read_only_folder_is_one_sentence(tmp_path):
    """In a child, because root may write everywhere."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.getuid() == 0:
                for parent in [tmp_path, *tmp_path.parents][:-1]:
                    parent.chmod(parent.stat().st_mode | 0o055)
                os.setgroups([])
                os.setuid(65534)
            try:
                Journal(folder / "run.jsonl")
            except UserMistake as error:
                code = 0 if "Permission denied" in str(error) else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_full_disk_is_one_sentence_and_keeps_what_was_written(tmp_path):
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal:
        journal.write("start")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, hard))
        try:
            with pytest.raises(MachineCannot, match=f"codasmith resume {path}"):
                journal.write("answer", text="a" * 1000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        journal.write("answer", text="again")
    events, problems = read(path)
    assert [e["event"] for e in events] == ["start", "answer"] and events[1]["text"] == "again"
    assert len(problems) == 1


def test_a_failing_sync_is_reported(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(tmp_path / "run.jsonl") as journal:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(MachineCannot, match="No space left on device"):
            journal.write("start")


def test_pauses_between_runs_are_not_counted():
    times = [("start", "10:00:00"), ("answer", "10:00:30"), ("resumed", "18:00:00"), ("answer", "18:00:05")]
    events = [{"event": e, "time": f"2026-01-01T{t}+00:00"} for e, t in times]
    assert seconds_active(events) == 35.0


def test_events_survive_a_kill_right_after_the_write(tmp_path):
    path = tmp_path / "run.jsonl"
    script = (
        "import os, signal, sys; from codasmith.agent.journal import Journal; j = Journal(sys.argv[1]);"
        "j.write('start'); j.write('answer', text='x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == -9
    assert [e["event"] for e in read(path)[0]] == ["start", "answer"]
    Journal(path).close()  # the lock died with its holder


@pytest.mark.parametrize(
    "change",
    [
        {"event": "prompt", "messages": [1, {"content": "x"}, {"content": "x", "sha256": 5}]},
        {"event": "prompt", "messages": 5, "shown": {"a": 1}},
        {"event": "verdict", "source": 17, "repeats": "y"},
        {"event": "answer", "usage": [1], "seconds": "x"},
    ],
)
def test_events_with_values_of_another_kind_are_read_without_a_fault(change):
    verdict = Verdict(task="t", task_digest="d", candidate_digest="c", tier="closed", status="checked")
    common = {"n": 1, "time": "2026-01-01T00:00:00+00:00", "attempt": 1}
    events = [
        {"event": "prompt", "messages": [], **common},
        {"event": "answer", "text": "hello", **common},
        {"event": "verdict", "verdict": verdict.model_dump(mode="json"), "source": "x = 1", **common},
    ]
    history = History([e | change if e["event"] == change["event"] else e for e in events])
    assert history.best.verdict == verdict and history.best.text == "hello"
    assert history.best.source == (None if "source" in change else "x = 1")
    assert history.best.repeats is None and history.spent.attempts == 1
