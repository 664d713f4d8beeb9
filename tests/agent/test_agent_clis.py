"""The wrappers that the documentation gives for agent CLIs, run as they stand there.

The CLIs are stand-ins of the same names.  Each takes the options that its documentation tells of and no others, joins
its argument and its standard input as the real one does, chatters on standard error, and refuses to start where the
real one does.  It answers what the last message of the conversation asks for, with the words of that message.
"""

import os
import re
import sys
from pathlib import Path

import pytest
from codasmith.agent import loop
from codasmith.agent.budget import Budget
from codasmith.agent.journal import Journal
from codasmith.agent.models import ModelError, make_model

STANDS_IN = """#!{python}
import os, re, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
piped = sys.stdin.read()
print("thinking about it", file=sys.stderr)


def ends(code, words):
    print(words, file=sys.stderr)
    sys.exit(code)


def taken(flags, valued):
    # what is given of these options, and the one argument beside them
    found, rest, left = {{}}, [], list(arguments)
    while left:
        word = left.pop(0)
        if word in flags:
            found[word] = True
        elif word in valued:
            found[word] = left.pop(0)
        elif word.startswith("-"):
            ends(2, f"error: unknown option {{word}}")
        else:
            rest.append(word)
    return found, rest


if name == "claude":
    found, rest = taken(["-p", "--strict-mcp-config"], ["--tools"])
    if "-p" not in found:
        ends(1, "this is no terminal")
    if found.get("--tools") != "" or "--strict-mcp-config" not in found:
        ends(1, "a tool was used")
    asked = "\\n".join([*rest, piped])
elif name == "codex":
    if arguments.pop(0) != "exec":
        ends(1, "this is no terminal")
    found, rest = taken(["--skip-git-repo-check"], ["--sandbox"])
    if found.get("--sandbox") not in ("read-only", "workspace-write", "danger-full-access"):
        ends(2, "error: no such sandbox")
    if "--skip-git-repo-check" not in found and not os.path.isdir(".git"):
        ends(1, "Not inside a trusted directory and --skip-git-repo-check was not specified.")
    asked = f"{{rest[0]}}\\n\\n<stdin>\\n{{piped}}\\n</stdin>"
else:
    found, rest = taken([], ["-p"])
    if os.environ.get("GEMINI_CLI_TRUST_WORKSPACE") != "true":
        ends(55, "Gemini CLI is not running in a trusted directory.")
    asked = f"{{piped}}\\n\\n{{found['-p']}}"
if os.listdir():
    ends(1, f"there are files here: {{os.listdir()}}")
if "Answer the last message of this conversation." not in asked:
    ends(1, "nothing is asked")
last = re.split(r"^===== (\\w+) =====$", asked, flags=re.M)
word = "WRONG" if "o is off by 2." not in last[-1] else "tax=1.02"
print(f"Here it is.\\n\\n```python\\nx = 1  # {{word}} by {{name}}\\n```")
"""


def wrappers():
    """By the CLI's name, the wrappers in docs/agent.md."""
    text = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()
    found = re.findall(r"```sh\n(#!/bin/sh\n[^\n]*\n)```", text)
    return {next(name for name in ("claude", "codex", "gemini") if f" {name} " in w): w for w in found}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """install(name, wrapper): the stand-in on the PATH, and the wrapper as a program whose path comes back."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE", raising=False)

    def put(name, wrapper):
        for path, text in ((programs / name, STANDS_IN.format(python=sys.executable)), (tmp_path / "ask.sh", wrapper)):
            path.write_text(text)
            path.chmod(0o755)
        return tmp_path / "ask.sh"

    return put


def test_the_documentation_gives_a_wrapper_of_two_lines_for_three_clis():
    assert sorted(wrappers()) == ["claude", "codex", "gemini"]
    assert all(len(wrapper.splitlines()) == 2 for wrapper in wrappers().values())


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_wrapped_cli_is_told_of_its_mistake_and_mends_it(name, install, task, fake_gate, tmp_path):
    model = make_model(f"command:{install(name, wrappers()[name])}", timeout=30)
    with Journal(tmp_path / "run.jsonl") as journal:
        result = loop.run(task, model, budget=Budget(attempts=3), gate=fake_gate, journal=journal)
    assert [a.verdict.status for a in result.attempts] == ["refused", "passed"]
    assert result.best.source == f"x = 1  # tax=1.02 by {name}\n"
    assert result.attempts[0].text.startswith("Here it is."), "nothing of standard error is in the answer"


@pytest.mark.parametrize(
    "name, without, said",
    [
        ("claude", ' --tools ""', "a tool was used"),
        ("codex", " --skip-git-repo-check", "Not inside a trusted directory"),
        ("gemini", " env GEMINI_CLI_TRUST_WORKSPACE=true", "not running in a trusted directory"),
        ("codex", 'cd "$(mktemp -d)" && ', "there are files here"),
    ],
)
def test_each_word_of_a_wrapper_is_needed_and_a_cli_that_fails_is_quoted(
    name, without, said, install, tmp_path, monkeypatch
):
    wrapper = wrappers()[name]
    assert without in wrapper
    monkeypatch.chdir(tmp_path)
    model = make_model(f"command:{install(name, wrapper.replace(without, ''))}", timeout=30)
    with pytest.raises(ModelError, match=said):
        model.answer([], max_tokens=1)
