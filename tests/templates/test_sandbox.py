"""The compile sandbox: what a module that compiles in it cannot do, and what is believed of what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from codasmith.gate.pipeline import bare_kernels
from codasmith.tasks import load_task
from codasmith.templates import landlock, sandbox, syscalls
from codasmith.templates.collect import collect, earlier, plain_bytes
from codasmith.templates.compile import Compiler
from codasmith.templates.signature import Argument

whole = pytest.mark.skipif(
    not landlock.version() or bool(syscalls.available()), reason="needs a kernel with Landlock, and libseccomp"
)

HOSTILE = """
import ctypes, json, os, signal, socket, stat, subprocess, sys, threading, urllib.request

SECRET, VICTIM = {secret!r}, {victim!r}
found = {{}}

def attempt(name, action):
    try:
        found[name] = f"done: {{action()!r}}"[:80]
    except BaseException as error:
        found[name] = type(error).__name__

libc = ctypes.CDLL(None, use_errno=True)

def is_pipe(fd):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

attempt("read a file of the user", lambda: open(SECRET).read())
attempt("read the environment of the parent", lambda: open(f"/proc/{{os.getppid()}}/environ").read())
attempt("read its own memory as a file", lambda: open("/proc/self/mem", "rb").read(1))
attempt("look at the job beside it", lambda: os.listdir(os.path.dirname(os.getcwd())))
attempt("overwrite another's object", lambda: open(VICTIM, "w").write("forged"))
attempt("overwrite a module", lambda: open(json.__file__, "a").write(""))
attempt("overwrite its own source", lambda: open(__file__, "a").write(""))
attempt("link to a file outside and write", lambda: (os.symlink(VICTIM, "link"), open("link", "w")))
attempt("hard link a file outside", lambda: os.link(VICTIM, "hard"))
attempt("open a device", lambda: open("/dev/ptmx", "w"))
attempt("use the network", lambda: urllib.request.urlopen("http://127.0.0.1:1", timeout=1))
attempt("make a socket", lambda: socket.socket(socket.AF_UNIX))
attempt("fork", os.fork)
attempt("run a program", lambda: subprocess.run(["/bin/true"]))
attempt("become a program", lambda: os.execv("/bin/true", ["true"]))
attempt("kill its parent", lambda: os.kill(os.getppid(), signal.SIGKILL))
attempt("kill all", lambda: os.kill(-1, signal.SIGKILL))
attempt("leave its session", os.setsid)
attempt("mount", lambda: call(165, b"none", b"/", b"tmpfs", 0, None))
attempt("unshare", lambda: call(272, 0x10000000))
attempt("memory without limit", lambda: len(bytearray(64 * 2**30)))
attempt("a file without limit", lambda: os.truncate(os.open("large", os.O_CREAT | os.O_RDWR), 2**40))
attempt("find a pipe of the server's", lambda: [fd for fd in range(64) if is_pipe(fd)] or 1 / 0)
attempt("find a key", lambda: [k for k, v in os.environ.items() if "KEY" in k or "secret" in v] or 1 / 0)
attempt("write in its folder", lambda: open("scratch.txt", "w").write("mine"))
attempt("start a thread", lambda: threading.Thread(target=int).start())
raise RuntimeError(json.dumps(found))
"""
ALLOWED = {"write in its folder", "start a thread"}


@pytest.fixture
def job():
    return bare_kernels(load_task("rmsnorm_scale"), "bf16")[0]


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_API_KEY", "secret")
        patch.setenv("HARMLESS_NAME", "secret")
        with Compiler(tmp_path_factory.mktemp("compiler") / "objects") as compiler:
            compiler.start()
            yield compiler


@whole
@pytest.mark.slow
def test_a_module_that_compiles_reaches_nothing_outside_its_folder(compiler, job):
    secret, victim = compiler.folder.parent / "secret", compiler.folder / "another" / "kernel.so"
    victim.parent.mkdir(parents=True)
    secret.write_text("a secret")
    victim.write_text("another's")
    source = HOSTILE.format(secret=str(secret), victim=str(victim))
    built = compiler.submit(source, job[1], tier="cutedsl").result(timeout=200)
    assert not built.ok
    found = json.loads(built.error.removeprefix("RuntimeError: "))
    assert {name for name, what in found.items() if what.startswith("done")} == ALLOWED
    assert victim.read_text() == "another's"
    assert sandbox.lacking(built.sandbox) == []
    assert built.line == source.splitlines().index("raise RuntimeError(json.dumps(found))") + 1
    assert not list(compiler.folder.glob("*/scratch-*"))


CRASHES = {
    "abort": ("import os\nos.abort()", "SIGABRT"),
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    "an end without a report": ("import os\nos._exit(3)", "ended the compiling process"),
    "links for what it should leave": (
        "import os\nos.symlink('/etc/passwd', 'report.json.part')\nos.symlink('/etc/passwd', 'kernel.so')\nos._exit(0)",
        "",
    ),
    "endless work": ("while True: pass", "longer than"),
}


@whole
@pytest.mark.slow
def test_whatever_way_a_module_ends_there_is_a_reason_and_no_object(compiler, job):
    futures = {
        name: compiler.submit(source, job[1], tier="cutedsl", limit_s=6) for name, (source, _) in CRASHES.items()
    }
    for name, future in futures.items():
        built = future.result(timeout=200)
        assert not built.ok and CRASHES[name][1] in built.error and built.error, name
    assert compiler.submit(*bare_kernels(load_task("rmsnorm_scale"), "bf16")[1]).result(timeout=60).ok


def test_each_guarantee_holds_or_says_why_not():
    found = sandbox.in_force()
    assert set(found) == {*sandbox.ASKED, "namespaces"}
    assert all(value is True or (isinstance(value, str) and len(value) > 10) for value in found.values())
    if landlock.version() and not syscalls.available():
        assert sandbox.lacking(found) == []


@pytest.mark.parametrize(
    ("without", "lost"),
    [
        ("landlock.version = lambda: 0", {"files", "gpu"}),
        ("syscalls.available = lambda: 'not here'", {"processes", "others"}),
        ("syscalls.METADATA = ()", {"others"}),
        ("syscalls.TURNS = ()", {"others"}),
        ("syscalls._OWNER = {}", {"others"}),
    ],
)
def test_a_means_that_is_missing_is_noticed(without, lost):
    script = f"""
import json
from codasmith.templates import landlock, sandbox, syscalls
{without}
print(json.dumps(sandbox.probe("")))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout.splitlines()[-1])
    assert lost <= {name for name, value in found.items() if value is not True}
    assert all(name in " ".join(sandbox.lacking(found)) for name in lost)


def test_the_server_is_given_a_list_of_variables_and_no_other(monkeypatch):
    for name in ("OPENAI_API_KEY", "GITHUB_PAT", "DB_PASSWORD", "HOME", "ANY_OTHER"):
        monkeypatch.setenv(name, "value")
    monkeypatch.setenv("CC", "clang")
    given = sandbox.environment()
    assert given["CC"] == "clang" and given["PATH"] == os.environ["PATH"]
    assert not {"OPENAI_API_KEY", "GITHUB_PAT", "DB_PASSWORD", "HOME", "ANY_OTHER"} & set(given)


def test_the_gate_and_the_registry_are_not_among_what_is_readable():
    package = Path(sandbox.__file__).resolve().parent.parent
    whole_trees = [path for path, rights in sandbox.readable() if rights & landlock.READ_FILE]
    assert package / "templates" in whole_trees and package / "primitives" in whole_trees
    for part in ("gate", "tasks", "verified_kernels", "evals", "agent"):
        assert not any((package / part).is_relative_to(path) for path in whole_trees)


def test_a_package_inside_a_readable_folder_is_left_out(tmp_path):
    for name in ("site/other/a.py", "site/codasmith/gate/b.py", "site/single.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    rules = dict(sandbox._around(tmp_path, tmp_path / "site" / "codasmith"))
    site = tmp_path / "site"
    assert rules == {
        tmp_path: landlock.READ_DIR,
        site: landlock.READ_DIR,
        site / "other": landlock.READ,
        site / "single.py": landlock.READ,
    }


# --- what is believed of what a child leaves ---------------------------------------------------------


@pytest.fixture
def left(tmp_path, job):
    """A scratch folder as a well-behaved child leaves it, and what was asked for."""
    asked = job[1].model_copy(update={"symbol": "codasmith_0123"})
    scratch = tmp_path / "scratch-1"
    scratch.mkdir()
    found = asked.model_copy(update={"fields": ("y",)})
    (scratch / "report.json").write_text(
        json.dumps(
            {"ok": True, "signature": found.model_dump(mode="json"), "stages": 4, "spill_bytes": 0, "seconds": 1.5}
        )
    )
    (scratch / "kernel.so").write_bytes(b"object")
    (scratch / "compile.log").write_text("said")
    return scratch, asked


def _change(scratch, **changes):
    report = json.loads((scratch / "report.json").read_text())
    report["signature"] |= changes
    (scratch / "report.json").write_text(json.dumps(report))


def _taken(left, tmp_path, tier="cutedsl", ended_well=True):
    return collect(left[0], tmp_path, left[1], tier, {"files": True}, ended_well)


def test_what_was_asked_for_is_taken_over(left, tmp_path):
    report = _taken(left, tmp_path)
    assert report["ok"] and report["stages"] == 4 and report["sandbox"] == {"files": True}
    assert (tmp_path / "kernel.so").read_bytes() == b"object"
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert not left[0].exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"symbol": "codasmith_of_the_bare_kernel"},
        {"outputs": []},
        {"inputs": ["h", "w"]},
        {"storage": "fp16"},
        {"accumulates": ["h"]},
        {"task": "another"},
        {"d": "nothing"},
        {"arguments": [Argument(field="x", name="stranger", role="store").model_dump()]},
        {"arguments": 3},
        {"d": "h"},
        {"c": "y"},
        {"arguments": [Argument(field="x", name="y", role="tile").model_dump()]},
        {"arguments": [Argument(field="x", name="h", role="sink").model_dump()]},
        {"arguments": [Argument(field="../x\n", name="y", role="store").model_dump()]},
        {"arguments": [Argument(field="x", name="y", role="store").model_dump()] * 2},
        {"arguments": [Argument(field=f"x{i}", name="y", role="store").model_dump() for i in range(1000)]},
        {"fields": ["y", "\u202e"]},
    ],
)
def test_a_signature_of_another_kernel_is_refused(left, tmp_path, changes):
    _change(left[0], **changes)
    report = _taken(left, tmp_path)
    assert not report["ok"] and "signature" in report["error"]
    assert not (tmp_path / "kernel.so").exists()


def test_the_closed_tier_leaves_the_child_the_order_of_fields_only(left, tmp_path):
    _change(left[0], mode="acc_pair")
    assert not _taken(left, tmp_path, tier="closed")["ok"]


def test_a_child_that_crashed_has_no_object_whatever_it_reports(left, tmp_path):
    assert not _taken(left, tmp_path, ended_well=False)["ok"]
    assert not (tmp_path / "kernel.so").exists()


def test_a_link_is_no_object(left, tmp_path):
    (tmp_path / "another.so").write_bytes(b"another's")
    (left[0] / "kernel.so").unlink()
    (left[0] / "kernel.so").symlink_to(tmp_path / "another.so")
    report = _taken(left, tmp_path)
    assert not report["ok"] and "link" in report["error"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"ok": 1}', '{"ok": true}', "[" * 100_000, '{"ok": true, "signature": []}']
)
def test_a_report_that_is_none_is_a_failed_build(left, tmp_path, text):
    (left[0] / "report.json").write_text(text)
    assert not _taken(left, tmp_path)["ok"]


@pytest.mark.parametrize(
    "forged", [{"error": "half \ud800 a character"}, {"seconds": float("nan")}, {"anything": [float("inf")]}]
)
def test_a_report_that_could_not_be_written_down_again_is_none(left, tmp_path, forged):
    report = json.loads((left[0] / "report.json").read_text())
    (left[0] / "report.json").write_text(json.dumps(report | forged))
    kept = _taken(left, tmp_path)
    assert not kept["ok"] and json.dumps(kept, allow_nan=False).isascii()


def test_of_a_report_what_is_no_sensible_number_is_left_out_and_no_text_moves_a_terminal(left, tmp_path):
    report = json.loads((left[0] / "report.json").read_text())
    forged = {"stages": 10**4000, "spill_bytes": -1, "where": True, "seconds": 1.5}
    forged["error"] = "\x1b[2Jgone\u202e\n" + "x" * 100_000
    (left[0] / "report.json").write_text(json.dumps(report | forged))
    kept = _taken(left, tmp_path)
    assert not {"stages", "spill_bytes", "where"} & set(kept) and kept["seconds"] == 1.5
    assert kept["error"].startswith("[2Jgone\nxxx") and len(kept["error"]) <= 8000


def test_only_ordinary_files_of_a_sensible_size_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 11)
    (tmp_path / "hard").hardlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "single").write_bytes(b"x" * 10)
    assert plain_bytes(tmp_path / "single", 10) == b"x" * 10
    for name, most in (("single", 9), ("hard", 100), ("pipe", 100)):
        with pytest.raises(ValueError, match=name):
            plain_bytes(tmp_path / name, most)


def test_a_compiler_beside_the_system_may_be_read_with_its_parts(tmp_path, monkeypatch):
    parts, compiler = tmp_path / "gcc" / "lib" / "13", tmp_path / "gcc" / "bin" / "cc"
    for folder in (parts, compiler.parent):
        folder.mkdir(parents=True)
    compiler.write_text(f"#!/bin/sh\necho install: {parts}/\necho libraries: ={parts}/:/nowhere/:relative/:/\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    sandbox.compiler_folders.cache_clear()
    try:
        assert sandbox.compiler_folders() == [compiler.parent, parts]
        assert {parts, compiler.parent} <= {path for path, _ in sandbox.readable()}
    finally:
        sandbox.compiler_folders.cache_clear()


def test_no_link_leads_around_to_what_is_hidden(tmp_path):
    package = tmp_path / "venv" / "lib" / "site-packages" / "pkg"
    (package / "verified").mkdir(parents=True)
    other = package.parent / "numpy"
    other.mkdir()
    for name, target in {"lib64": "lib", "all": ".", "up": "..", "to": "lib/site-packages/pkg", "no": "gone"}.items():
        (tmp_path / "venv" / name).symlink_to(target)
    outside = tmp_path / "python"
    outside.touch()
    (tmp_path / "venv" / "python").symlink_to(outside)
    rules = sandbox._around(tmp_path / "venv", package)
    whole = {path.resolve() for path, rights in rules if rights == landlock.READ}
    assert whole == {other, outside}
    assert {path for path, rights in rules if rights != landlock.READ} == {package.parents[n] for n in range(3)}


def test_an_object_that_another_process_has_kept_meanwhile_stays(left, tmp_path):
    first = _taken(left, tmp_path)
    scratch = tmp_path / "scratch-2"
    scratch.mkdir()
    (scratch / "report.json").write_text(json.dumps({"ok": True, "signature": first["signature"], "stages": 2}))
    (scratch / "kernel.so").write_bytes(b"another object")
    assert _taken((scratch, left[1]), tmp_path) == first
    assert (tmp_path / "kernel.so").read_bytes() == b"object" and not scratch.exists()


@pytest.mark.parametrize(
    "text", ["[]", "null", '"x"', "{}", '{"ok": true}', '{"ok": true, "signature": {}}', "[" * 9000]
)
def test_a_damaged_report_is_no_earlier_build(left, tmp_path, text):
    kept = _taken(left, tmp_path)
    assert earlier(tmp_path) == kept
    (tmp_path / "report.json").write_text(text)
    assert earlier(tmp_path) == {}


def test_an_object_that_is_not_as_it_was_kept_is_no_earlier_build(left, tmp_path):
    kept = _taken(left, tmp_path)
    for content in (b"", b"objecT"):
        (tmp_path / "kernel.so").write_bytes(content)
        assert earlier(tmp_path) == {}
    (tmp_path / "kernel.so").write_bytes(b"object")
    assert earlier(tmp_path) == kept
    (tmp_path / "report.json").write_text(json.dumps({k: v for k, v in kept.items() if k != "object"}))
    assert earlier(tmp_path)["ok"]  # of before there were digests
    (tmp_path / "kernel.so").unlink()
    assert earlier(tmp_path) == {}
