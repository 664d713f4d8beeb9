"""What a disk or a place refuses is one sentence, and code 3 where there is no space."""

import errno
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from codasmith.agent.speak import speaking

LACKS = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def codasmith(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "codasmith.agent", *words], stderr=subprocess.PIPE, text=True, check=False, **more
    )


@LACKS
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_answer_that_the_disk_has_no_room_for_is_one_sentence(more):
    with Path("/dev/full").open("w") as full:
        result = codasmith("tasks", "list", *more, stdout=full)
    assert result.returncode == 3
    said = "codasmith: the standard output cannot be written (No space left on device); make room\n"
    assert result.stderr == said


@pytest.mark.parametrize(
    ("number", "name", "code", "said"),
    [
        (errno.ENOSPC, "runs/x", 3, "runs/x cannot be written (No space left on device); make room"),
        (errno.ENOSPC, None, 3, "what was to be kept cannot be written (No space left on device); make room"),
        (errno.EROFS, "runs/x", 2, "runs/x cannot be written (Read-only file system); name another place"),
        (errno.EACCES, "runs/x", 2, "runs/x cannot be written (Permission denied); name another place"),
    ],
)
def test_wherever_the_disk_refuses_a_command_says_so_in_one_sentence(capsys, number, name, code, said):
    from typer import Exit

    with pytest.raises(Exit) as ended, speaking(as_json=True):
        raise OSError(number, os.strerror(number), name)
    assert ended.value.exit_code == code
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": said, "exit_code": code}
    assert " ".join(err.split()) == f"codasmith: {said}"


def test_what_is_no_refusal_of_the_disk_stays_a_fault_of_ours():
    for fault in (OSError(errno.EBADF, "Bad file descriptor"), FileNotFoundError(errno.ENOENT, "No such file", "x")):
        with pytest.raises(OSError, match=r"Bad file|No such file"), speaking():
            raise fault


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 3), (errno.EACCES, 2)])
def test_an_export_without_room_ends_as_other_commands_do(number, code, monkeypatch, tmp_path, capsys):
    from codasmith.agent.cli import main

    def refused(*_):
        raise OSError(number, os.strerror(number), "x")

    monkeypatch.setattr(importlib.import_module("codasmith.verified_kernels.export"), "_write", refused)
    monkeypatch.setattr(sys, "argv", ["codasmith", "kernels", "export", "linear_bias", "--to", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code and f"cannot be written ({os.strerror(number)})" in capsys.readouterr().err


def test_letters_that_the_locale_lacks_end_nothing():
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"} | plain
    result = codasmith("kernels", "show", "rmsnorm_swiglu", stdout=subprocess.PIPE, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "bars begin at 0.9, ? is 1.00" in result.stdout and result.stdout.isascii()
