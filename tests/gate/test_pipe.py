"""The coordinator's side of a child that misbehaves: each ends as ChildFailed with its code, within its limit."""

from __future__ import annotations

import os
import time

import pytest
from codasmith.gate import session as session_module
from codasmith.gate.pipe import MAX_LINE, Child, ChildFailed
from codasmith.gate.session import Session
from codasmith.gate.verdict import StageResult

READY = 'say({"ready": True})\n'
HEADER = """
import json, os, signal, sys, time

def say(message):
    print(json.dumps(message), flush=True)

def commands():
    for line in sys.stdin:
        yield json.loads(line)

"""
ANSWERS = (
    READY + 'for c in commands():\n    say({"number": c["number"], "ok": True, "op": c["op"], "pid": os.getpid()})\n'
)
BEHAVIOUR = {
    # name: (what the child runs, the code of the failure, words of its message)
    "a segmentation fault": ("os.kill(os.getpid(), signal.SIGSEGV)", "crash", "SIGSEGV"),
    "an abort": ("os.abort()", "crash", "SIGABRT"),
    "a kill": ("os.kill(os.getpid(), signal.SIGKILL)", "crash", "SIGKILL"),
    "an exit": ("sys.exit(3)", "crash", "status 3"),
    "a hang": ("time.sleep(3600)", "hang", "did not finish within 1 s"),
    "a hang with its signals blocked": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))\n    time.sleep(3600)",
        "hang",
        "did not finish",
    ),
    "a line without an end": (
        "while True: os.write(1, b'x' * 65536)",
        "flood",
        "more than an answer holds",
    ),
    "a drip that never ends": (
        "while True:\n        os.write(1, b'x')\n        time.sleep(0.05)",
        "hang",
        "did not finish",
    ),
    "garbage": ("os.write(1, b'\\xff\\xfe garbage\\n')", "forged", "no answer"),
    "half an answer": ("os.write(1, b'{\"number\": \\n')", "forged", "no answer"),
    "JSON that is no answer": ("os.write(1, b'[1]\\n')", "forged", "no answer"),
    "a number": ("os.write(1, b'17\\n')", "forged", "no answer"),
    "deep nesting": ("os.write(1, b'[' * 100000 + b'\\n')", "forged", "no answer"),
    "an answer to another command": ('say({"number": 99, "ok": True})', "forged", "out of turn"),
    "an answer to no command": ('say({"ok": True})', "forged", "out of turn"),
    "a refusal": ('say({"number": c["number"], "ok": False, "error": "no such kernel"})', "error", "no such kernel"),
    "an answer that says nothing": ('say({"number": c["number"]})', "error", "without a reason"),
}


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Runs a script as a Child; whatever is left alive is ended."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = []

    def run(script, name="fake_child", **options):
        (tmp_path / f"{name}.py").write_text(HEADER + script)
        started.append(Child(name, start_s=options.pop("start_s", 30), **options))
        return started[-1]

    yield run
    for child in started:
        child.kill()


def gone(process_id):
    for _ in range(100):
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_an_answer_comes_back(start):
    child = start(ANSWERS)
    assert child.call("hello")["op"] == "hello"
    assert child.call("again")["number"] == 2
    assert child.alive


@pytest.mark.parametrize("what", BEHAVIOUR)
def test_a_child_that_misbehaves_fails_with_its_code(what, start):
    script, code, words = BEHAVIOUR[what]
    child = start(READY + f"for c in commands():\n    {script}\n")
    began = time.monotonic()
    with pytest.raises(ChildFailed, match=words) as caught:
        child.call("work", limit_s=8.0 if code == "flood" else 1.0)
    assert caught.value.code == code
    assert time.monotonic() - began < 10
    assert child.alive == (code == "error")


def test_a_stopped_child_takes_its_own_children_with_it(start, tmp_path):
    child = start(
        READY + "for c in commands():\n    inner = os.fork()\n    if inner == 0: time.sleep(3600)\n"
        f"    open({str(tmp_path / 'inner')!r}, 'w').write(str(inner))\n    time.sleep(3600)\n"
    )
    with pytest.raises(ChildFailed):
        child.call("work", limit_s=1.0)
    assert gone(int((tmp_path / "inner").read_text()))


@pytest.mark.parametrize(
    ("script", "code"),
    [("sys.exit(1)", "crash"), ("time.sleep(3600)", "hang"), ("print('hello', flush=True)\ntime.sleep(60)", "forged")],
)
def test_a_child_that_never_gets_ready_fails_and_is_not_left_behind(start, script, code):
    with pytest.raises(ChildFailed) as caught:
        start(script, start_s=1.5)
    assert caught.value.code == code


def test_a_child_that_cannot_begin_says_why(start, tmp_path):
    script = 'say({"ready": False, "error": "no GPU to begin with (CUDA error: out of memory)"})\ntime.sleep(3600)\n'
    with pytest.raises(ChildFailed, match="no GPU to begin with") as caught:
        start(script)
    assert caught.value.code == "start"


def test_a_command_to_a_dead_child_fails(start):
    child = start(READY + "sys.exit(0)\n")
    child.process.wait(10)
    with pytest.raises(ChildFailed) as caught:
        child.call("work")
        child.call("work")
    assert caught.value.code == "crash"


def test_a_long_answer_is_taken_and_a_longer_one_is_not(start):
    child = start(
        READY + 'for c in commands():\n    say({"number": c["number"], "ok": True, "text": "x" * c["size"]})\n'
    )
    assert len(child.call("work", size=2**20)["text"]) == 2**20
    with pytest.raises(ChildFailed) as caught:
        child.call("work", size=MAX_LINE)
    assert caught.value.code == "flood"


def test_what_a_child_says_of_its_failure_can_be_written_and_shown(start):
    text = "\\x1b[2J\\ud800bad " + "x" * 20
    child = start(READY + f'for c in commands():\n    say({{"number": c["number"], "error": "{text}" * 1000}})\n')
    with pytest.raises(ChildFailed) as caught:
        child.call("anything")
    said = str(caught.value)
    assert said.startswith("[2Jbad xxx") and len(said) <= 4000 and said.encode()


def test_a_child_that_does_not_take_its_command_is_stopped(start):
    child = start(READY + "time.sleep(3600)\n")
    began = time.monotonic()
    with pytest.raises(ChildFailed, match="did not take") as caught:
        child.send("work", limit_s=1.0, text="x" * 2**20)
    assert caught.value.code == "hang" and not child.alive and time.monotonic() - began < 10


@pytest.mark.parametrize("awake_s, least, most", [(0.0, 0.0, 0.1), (0.6, 0.15, 0.6)])
def test_what_ends_a_time_is_waited_for_without_sleeping(start, awake_s, least, most):
    script = 'for c in commands():\n    time.sleep(0.3)\n    say({"number": c["number"], "ok": True})\n'
    child = start(READY + script, awake_s=awake_s)
    began = time.process_time()
    child.call("work")
    assert least <= time.process_time() - began < most
    with pytest.raises(ChildFailed) as caught:
        child.call("work", limit_s=0.1)
    assert caught.value.code == "hang"


def test_several_answers_in_one_write_are_taken_one_by_one(start):
    child = start(
        READY + 'for c in commands():\n    n = c["number"]\n'
        '    os.write(1, "".join(json.dumps({"number": n, "part": p}) + "\\n" for p in range(3)).encode())\n'
    )
    number = child.send("work")
    assert [child.read(5) for _ in range(3)] == [{"number": number, "part": p} for p in range(3)]


def test_a_module_in_the_current_folder_is_not_what_is_started(start, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(elsewhere)
    assert start(ANSWERS).call("hello")["ok"]


def test_the_environment_can_be_a_short_list(start, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "secret")
    script = (
        READY
        + 'for c in commands():\n    say({"number": c["number"], "ok": True, "key": os.environ.get("SOME_KEY")})\n'
    )
    kept = {k: v for k, v in os.environ.items() if k != "SOME_KEY"}
    assert start(script, environment=kept).call("look")["key"] is None


# --- the session ------------------------------------------------------------------------------------

JUDGE = (
    READY
    + """
for c in commands():
    n = c["number"]
    say({"number": n, "stage": "tune", "progress": "racing"})
    if c.get("trap") == "crash": os.abort()
    if c.get("trap") == "hang": time.sleep(3600)
    if c.get("trap") == "forge": say({"number": n + 1, "ok": True, "stages": []}); continue
    if c.get("trap") == "nonsense": say({"number": n, "ok": True, "stages": [{"stage": "invented"}]}); continue
    if c.get("trap") == "bare": say({"number": n}); continue
    say({"number": n, "ok": True, "stages": [{"stage": "tune", "outcome": "passed", "note": str(os.getpid())}]})
"""
)


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """A session whose referee is a script."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "fake_referee.py").write_text(HEADER + JUDGE)
    monkeypatch.setattr(session_module, "Child", lambda module, **options: Child("fake_referee", **options))
    monkeypatch.setattr(session_module, "JUDGE_S", 2.0)
    with Session() as made:
        yield made


def test_a_session_hands_on_progress_and_stages(judge):
    said = []
    (stage,) = judge.judge({}, lambda *words: said.append(words))
    assert isinstance(stage, StageResult) and stage.outcome == "passed"
    assert said == [("tune", "racing")]


@pytest.mark.parametrize(
    ("trap", "code"),
    [("crash", "crash"), ("hang", "hang"), ("forge", "forged"), ("nonsense", "forged"), ("bare", "forged")],
)
def test_a_dead_referee_is_replaced(judge, trap, code):
    before = judge.judge({}, lambda *_: None)[0].note
    with pytest.raises(ChildFailed) as caught:
        judge.judge({"trap": trap}, lambda *_: None)
    assert caught.value.code == code
    after = judge.judge({}, lambda *_: None)[0].note
    assert after != before and gone(int(before))


def test_a_closed_session_leaves_no_referee(judge):
    process = int(judge.judge({}, lambda *_: None)[0].note)
    judge.close()
    assert gone(process)
    assert judge.judge({}, lambda *_: None)[0].outcome == "passed"
