"""Programs as models, with real child processes."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import pytest
from codasmith.agent.models import Message, ModelError, make_model

TALK = [
    Message(role="system", content="Be brief."),
    Message(role="user", content="Größe?"),
    Message(role="assistant", content="4"),
    Message(role="user", content="Sure?"),
]


def python(code: str, **options):
    return make_model(f"command:{shlex.quote(sys.executable)} -c {shlex.quote(code)}", **options)


def fails(model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.answer(TALK, max_tokens=10)
    return caught.value


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan that was killed may stay a zombie where nobody reaps it.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_the_prompt_comes_on_stdin_and_the_answer_on_stdout():
    answer = make_model("command:cat").answer(TALK, max_tokens=10)
    assert answer.text == (
        "===== system =====\n\nBe brief.\n\n===== user =====\n\nGröße?\n\n"
        "===== assistant =====\n\n4\n\n===== user =====\n\nSure?\n"
    )
    assert (answer.model, answer.stop_reason) == ("command:cat", "end")
    assert not answer.usage.known and answer.usage.dollars is None


def test_a_lone_turn_is_passed_as_it_is():
    assert make_model("command:cat").answer([Message(role="user", content="a\nb")], max_tokens=1).text == "a\nb"


def test_a_long_prompt_and_a_long_answer_do_not_block_each_other():
    text = "0123456789abcdef\n" * 40_000
    answer = make_model("command:cat").answer([Message(role="user", content=text)], max_tokens=1)
    assert answer.text == text


def test_a_program_need_not_read_its_prompt():
    assert make_model("command:echo hi 'a b'").answer(TALK, max_tokens=1).text == "hi a b\n"


def test_text_is_heard_as_it_is_written():
    heard: list[tuple[str, float]] = []
    model = python("import time\nprint('one', flush=True)\ntime.sleep(0.4)\nprint('two')")
    answer = model.answer(TALK, max_tokens=1, on_text=lambda piece: heard.append((piece, time.monotonic())))
    assert "".join(piece for piece, _ in heard) == answer.text == "one\ntwo\n"
    assert heard[-1][1] - heard[0][1] > 0.2


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ModelError, match="'no-such-program' was not found") as caught:
        make_model("command:no-such-program --fast")
    assert (caught.value.kind, caught.value.retryable) == ("bad-request", False)


def test_a_file_that_is_no_program_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match="may not be run"):
        make_model(f"command:{tmp_path / 'notes.txt'}")


def test_a_program_that_goes_away_is_named(tmp_path):
    program = tmp_path / "answer"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    model = make_model(f"command:{program}")
    program.unlink()
    error = fails(model)
    assert error.kind == "unreachable" and "was not found" in str(error)


def test_a_failure_is_told_with_the_end_of_stderr():
    error = fails(python("import sys\nsys.stderr.write('x' * 9000 + ' no\\ncredit left\\n')\nsys.exit(3)"))
    assert error.kind == "other"
    assert "failed with exit code 3" in str(error) and str(error).endswith("no credit left")
    assert len(str(error)) < 600


def test_a_crash_is_told_by_the_name_of_its_signal():
    assert "was ended by SIGSEGV" in str(fails(python("import os; os.kill(os.getpid(), 11)")))


def test_silence_is_told():
    error = fails(python("import sys; print('  '); sys.stderr.write('warming up')"))
    assert "without an answer" in str(error) and "warming up" in str(error)


def test_at_the_limit_the_program_and_its_children_are_killed(tmp_path):
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('half', flush=True)\ntime.sleep(60)"
    )
    began = time.monotonic()
    error = fails(python(code, timeout=1.5))
    assert time.monotonic() - began < 10
    assert (error.kind, error.retryable) == ("timeout", False)
    assert "within 1.5 s" in str(error)
    parent, child = map(int, pids.read_text().split())
    assert gone(parent) and gone(child)


def test_a_program_that_closes_its_output_and_stays_is_killed():
    error = fails(python("import os, time\nprint('hi', flush=True)\nos.close(1)\ntime.sleep(60)", timeout=0.8))
    assert error.kind == "timeout"


def test_a_child_that_is_left_behind_is_not_waited_for(tmp_path):
    pid = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\nprint('done')"
    )
    assert python(code, timeout=30).answer(TALK, max_tokens=1).text == "done\n"
    assert gone(int(pid.read_text()))


def test_an_interrupt_kills_the_program(tmp_path):
    pid = tmp_path / "pid"
    model = python(
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nprint(1, flush=True)\ntime.sleep(60)"
    )

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.answer(TALK, max_tokens=1, on_text=interrupt)
    assert gone(int(pid.read_text()))


def test_an_endless_answer_is_stopped():
    error = fails(make_model("command:yes", timeout=60))
    assert "more than 8 MiB" in str(error)


def test_bytes_that_are_no_text_are_replaced():
    assert python("import os; os.write(1, b'a\\xff\\xc3')").answer(TALK, max_tokens=1).text == "a\ufffd\ufffd"


@pytest.mark.parametrize("line", ["cat 'open", '"'])
def test_a_line_that_cannot_be_split_is_told(line):
    with pytest.raises(ModelError, match="close the quotes"):
        make_model(f"command:{line}")
