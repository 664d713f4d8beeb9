import json
import subprocess
import sys

import pytest
from codasmith import gate
from codasmith.agent.cli import app
from typer.testing import CliRunner


@pytest.fixture
def cli(monkeypatch, fake_gate, tmp_path):
    """The command line on a machine without a GPU, with the fake gate; gives (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODASMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    # Into the module's dict: looking for the old `evaluate` would import it.
    monkeypatch.setitem(vars(gate), "evaluate", fake_gate)
    monkeypatch.setattr(gate, "has_gpu", lambda: False)
    monkeypatch.setattr(gate, "describe_machine", lambda: {"gpu": "none", "linker": "/usr/bin/gcc"})

    def invoke(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return invoke


@pytest.fixture
def model(tmp_path, code):
    """A program that answers with this comment in its code."""

    def make(comment):
        (tmp_path / "answer.txt").write_text(code(comment))
        return f"command:cat {tmp_path / 'answer.txt'}"

    return make


def candidate(tmp_path, text):
    path = tmp_path / "candidate.py"
    path.write_text(text)
    return path


def test_help_starts_without_torch_and_documents_the_exit_codes():
    script = "import sys; import codasmith.agent.cli; print('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "False"
    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    for words in (
        "0 admitted",
        "1 the candidate failed",
        "2 a mistake",
        "3 this machine cannot",
        "4 the budget",
        "130",
    ):
        assert words in text


def test_a_run_without_a_gpu_ends_with_the_stages_and_says_why_nothing_is_admitted(cli, model, tmp_path):
    code, out, err = cli("run", "linear_bias", "--model", model("fine"))
    assert code == 0
    assert (
        "The candidate is checked and not admitted, because there is no GPU here: "
        "only a verdict from a real Hopper GPU admits." in out
    )
    assert "read" in out and "seconds" in out and "x = 1  # fine" in out
    assert "attempt 1: asking" in err and "attempt 1: checked" in err
    (journal,) = (tmp_path / "runs").glob("*.jsonl")
    assert f"runs/{journal.name}" in out and "linear_bias" in journal.name


def test_a_cpu_only_run_beside_a_gpu_does_not_say_that_there_is_none(cli, model, monkeypatch):
    monkeypatch.setattr(gate, "has_gpu", lambda: True)
    code, out, _ = cli("run", "linear_bias", "--model", model("fine"), "--cpu-only")
    assert code == 0 and "no GPU here" not in out
    assert "not admitted, because only the stages that need no GPU were asked for" in out


def test_json_is_all_of_stdout(cli, model):
    code, out, err = cli("run", "linear_bias", "--model", model("fine"), "--json")
    document = json.loads(out)
    assert code == document["exit_code"] == 0 and document["status"] == "checked"
    assert "attempt 1" in err


def test_a_spent_budget_is_exit_code_4_and_says_how_to_go_on(cli, model):
    code, out, _ = cli("run", "linear_bias", "--model", model("WRONG"), "--attempts", "2", "--journal", "j.jsonl")
    assert code == 4
    assert "codasmith resume j.jsonl --attempts N" in out
    code, out, _ = cli("resume", "j.jsonl", "--attempts", "5")
    assert code == 1 and "gave the same answers again" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "linear_bais"), "did you mean linear_bias"),
        (("run", "no_such.py"), "there is no file"),
        (("run", "linear_bias", "--model", "antropic:x"), "did you mean anthropic:x?"),
        (("run", "linear_bias", "--attempts", "0"), "--attempts 0 leaves nothing to spend"),
        (("run", "linear_bias", "--journal", "/dev/null/j.jsonl"), "choose another place with --journal"),
        (("run", "linear_bias", "--base-url", "http://localhost"), "no option 'base_url'"),
        (("run", "linear_bias", "--thinking", "2048"), "no option 'thinking'"),
        (("run", "linear_bias", "--model", "openai:x", "--thinking", "2048"), "openai: has no option 'thinking'"),
        (("run", "linear_bias", "--model", "replay:none.jsonl"), "none.jsonl cannot be read"),
        (("run", "linear_bias", "--model", "command:no-such-program"), "'no-such-program' was not found"),
        (("run", "linear_bias", "--tier", "cutedsl"), "builtin:tracer writes the language of the closed tier only"),
        (("run", "mlp_swiglu", "--tier", "cutedsl", "--model", "command:cat"), "taken in the closed tier only"),
        (("resume", "missing.jsonl"), "cannot be read"),
        (("check", "linear_bias", "missing.py"), "cannot be read"),
        (("check", "linear_bias", "."), "is not a file"),
        (("tasks", "show", "linear_bais"), "did you mean linear_bias"),
        (("kernels", "show", "linear_bais"), "did you mean linear_bias"),
        (("kernels", "list", "linear_bais"), "did you mean linear_bias"),
        (("kernels", "list", "nothing"), "nothing is called 'nothing'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(cli, arguments, words):
    code, out, err = cli(*arguments)
    assert code == 2 and words in " ".join(err.split()) and out == ""
    assert "Traceback" not in err
    code, out, err = cli(*arguments, "--json")
    assert code == 2 and words in json.loads(out)["error"]


def test_a_task_that_the_tracer_cannot_translate_is_exit_code_1_and_says_who_else_to_ask(cli, tmp_path):
    (tmp_path / "running.py").write_text(
        "from codasmith.tasks import Tensor, task\n"
        '@task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})\n'
        'def running(x, w):\n    return {"y": (x @ w.T).cumsum(-1)}\n'
    )
    code, _, err = cli("run", str(tmp_path / "running.py"), "--journal", str(tmp_path / "j.jsonl"))
    assert code == 1 and "torch.cumsum needs the whole row" in err and "and apply it afterwards; or ask another" in err


def test_a_model_that_answers_nothing_at_all_leaves_a_run_to_go_on_with(cli, model, tmp_path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    code, _, said = cli("run", "linear_silu", "--model", f"command:{silent}", "--cpu-only", "--journal", "run.jsonl")
    assert code == 1 and "exit code 1; when that is mended: codasmith resume run.jsonl" in said
    silent.write_text(f"#!/bin/sh\ncat {model('at last').split()[-1]}\n")
    assert cli("resume", "run.jsonl")[0] == 0


@pytest.mark.parametrize(("given", "meant"), [("2048", 2048), ("adaptive", "adaptive")])
def test_options_of_models_reach_the_model(cli, monkeypatch, given, meant):
    from codasmith.agent import campaign
    from codasmith.agent.models import ModelError

    made = {}

    def make(name, **options):
        made.update({"name": name, **options})
        raise ModelError("no further", "bad-request")

    monkeypatch.setattr(campaign, "make_model", make)
    options = ("--thinking", given, "--api", "chat", "--effort", "high", "--key-env", "MY_KEY", "--timeout", "9")
    assert cli("run", "linear_bias", "--model", "anthropic:x", *options)[0] == 2
    more = {"api": "chat", "effort": "high", "key_env": "MY_KEY", "timeout": 9.0}
    assert made == {"name": "anthropic:x", "thinking": meant, **more}


def test_a_missing_key_is_named(cli, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    code, _, err = cli("run", "linear_bias", "--model", "anthropic:some-model")
    assert code == 2 and "ANTHROPIC_API_KEY" in err


@pytest.mark.parametrize(
    ("text", "code", "status"), [("fine", 0, "checked"), ("WRONG", 1, "refused"), ("BROKEN", 3, "failed")]
)
def test_check_gives_the_verdict_as_table_document_and_exit_code(cli, tmp_path, text, code, status):
    path = candidate(tmp_path, f"x = 1  # {text}\n")
    found, out, _ = cli("check", "linear_bias", path)
    assert found == code and f"linear_bias: {status}" in out
    found, out, _ = cli("check", "linear_bias", path, "--json")
    assert found == code and json.loads(out)["verdict"]["status"] == status


def test_check_shows_the_finding_with_its_line(cli, tmp_path):
    _, out, _ = cli("check", "linear_bias", candidate(tmp_path, "a = 1\nx = 1  # WRONG\n"))
    assert "line 2: o is off by 2. Halve it." in out


def test_verify_without_a_gpu_is_exit_code_3_and_names_what_runs_here(cli, tmp_path):
    code, out, err = cli("verify", "linear_bias", candidate(tmp_path, "x = 1\n"))
    assert code == 3 and out == ""
    assert "no Hopper GPU" in err and "codasmith check linear_bias" in err


def test_verify_on_a_gpu_runs_the_whole_gate_and_admits_when_asked(cli, tmp_path, monkeypatch):
    from codasmith import verified_kernels

    class Entry:
        name = "linear_bias/abc"

    kept, sanitized = [], []
    monkeypatch.setattr(gate, "has_gpu", lambda: True)
    monkeypatch.setitem(vars(gate), "sanitize", lambda passed, progress: sanitized.extend(passed) or passed)
    monkeypatch.setitem(vars(verified_kernels), "admit", lambda e, t, author: kept.append(author) or Entry)
    path = candidate(tmp_path, "x = 1  # tax=1.04 \n")
    code, out, _ = cli("verify", "linear_bias", path)
    assert code == 0 and "passed, tax 1.040" in out and kept == [] and len(sanitized) == 1
    code, out, _ = cli("verify", "linear_bias", path, "--admit", "--no-sanitize")
    assert code == 0 and "admitted" in out and kept == ["hand-written"] and len(sanitized) == 1


def test_a_candidate_that_is_not_text_is_a_sentence(cli, tmp_path):
    path = tmp_path / "candidate.py"
    path.write_bytes(b"\xff\xfe\x00")
    code, _, err = cli("check", "linear_bias", path)
    assert code == 2 and "is not UTF-8" in err


def test_a_task_without_a_kernel_is_told_from_an_unknown_one(cli, tmp_path, monkeypatch):
    from codasmith.verified_kernels import store

    monkeypatch.setattr(store, "stores", lambda: (tmp_path,))
    code, out, err = cli("kernels", "show", "linear_bias")
    assert code == 2 and "no kernel of linear_bias" in err and out == ""


def test_tasks_are_listed_and_shown(cli):
    code, out, _ = cli("tasks", "list", "--json")
    rows = {r["task"]: r for r in json.loads(out)["tasks"]}
    assert code == 0 and rows["linear_bias"]["level"] == 1 and rows["linear_bias"]["about"]
    code, out, _ = cli("tasks", "show", "linear_bias")
    assert code == 0 and "def linear_bias(" in out and "product  x @ w.T: M x N" in out


def test_tasks_show_says_in_which_dtypes_a_task_may_be_stored(cli):
    assert "stored   in bf16, fp16; with fp8 operands: linear_bias_fp8\n" in cli("tasks", "show", "linear_bias")[1]
    assert "stored   in bf16, fp16\n" in cli("tasks", "show", "gelu_bwd")[1]
    shown = cli("tasks", "show", "linear_scale_bias")[1]
    assert "stored   in bf16, fp16, fp8 (the scale of x in row_scale, the scale of w in col_scale, " in shown


def test_a_task_that_takes_no_fp8_operands_is_refused_before_anything_is_asked(cli, tmp_path):
    path = tmp_path / "candidate.py"
    path.write_text("nothing")
    for command in (("check", "linear_bias", path), ("run", "linear_bias", "--model", "builtin:tracer")):
        code, out, err = cli(*command, "--storage", "fp8")
        assert code == 2 and out == ""
        said = "task 'linear_bias' is for bf16, fp16, and fp8 is asked; with fp8 operands it is linear_bias_fp8"
        assert said in " ".join(err.split())


def test_an_empty_store_lists_no_kernels(cli, monkeypatch):
    from codasmith.verified_kernels import store

    monkeypatch.setattr(store, "SHIPPED", store.SHIPPED / "none")
    code, out, _ = cli("kernels", "list", "linear_bias")
    assert code == 0 and "No kernel was admitted yet" in out


def test_doctor_says_whether_keys_are_set_and_never_what_they_are(cli, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    code, out, err = cli("doctor")
    assert code == 0 and "sk-very-secret" not in out + err
    assert "OPENAI_API_KEY     set" in out and "ANTHROPIC_API_KEY  not set" in out and "/usr/bin/gcc" in out
    _, out, _ = cli("doctor", "--json")
    document = json.loads(out)
    assert document["keys"] == {"ANTHROPIC_API_KEY": False, "OPENAI_API_KEY": True}
    assert document["gpu_usable"] is False
    assert {"files", "network", "memory", "namespaces"} <= set(document["sandbox"])
    assert all(lack.partition(" (")[0] in document["sandbox"] for lack in document["sandbox_lacks"])
    assert "sandbox" in cli("doctor")[1]


def test_the_version_is_that_of_the_installed_package(cli):
    from importlib.metadata import version

    assert cli("--version")[1].strip() == f"codasmith {version('codasmith')}"


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m codasmith.agent tasks list | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "task" in result.stdout and "Traceback" not in result.stderr


@pytest.mark.parametrize("asked", [True, False])
def test_counters_are_a_choice_of_the_run_that_a_resume_keeps(cli, model, asked, monkeypatch):
    from codasmith.agent import campaign

    made = []
    monkeypatch.setattr(campaign, "_counted", lambda gate, progress: made.append(gate) or gate)
    more = ["--counters"] if asked else []
    code, _, _ = cli("run", "linear_bias", "--model", model("WRONG"), "--attempts", "1", "--journal", "j.jsonl", *more)
    assert (code, len(made)) == (4, asked)
    assert cli("resume", "j.jsonl", "--attempts", "2")[0] == 4 and len(made) == 2 * asked


COMMANDS = (
    ("run",),
    ("run", "linear_bias", "--tier", "open"),
    ("run", "linear_bias", "--attempts", "many"),
    ("run", "linear_bias", "--no-such-option"),
    ("resume",),
    ("check", "linear_bias"),
    ("verify", "linear_bias", "candidate.py", "more.py"),
    ("doctor", "--bad"),
    ("tasks", "show"),
    ("tasks", "no-such-command"),
    ("kernels", "show"),
    ("journal", "show"),
    ("replay",),
    ("eval", "--samples", "few"),
    ("no-such-command",),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_error_of_use_is_one_json_object_with_the_sentence_too(cli, arguments):
    code, out, err = cli(*arguments, "--json")
    document = json.loads(out)
    assert code == 2 == document["exit_code"] and document["error"]
    assert "Error" in err and "Traceback" not in err
    assert cli(*arguments)[:2] == (2, ""), "without --json nothing is on stdout"


def test_a_fault_of_ours_is_one_json_object_and_still_shows_where(cli, monkeypatch):
    def broken():
        raise ZeroDivisionError("no number")

    monkeypatch.setattr(gate, "describe_machine", broken)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert json.loads(result.stdout) == {
        "error": "a fault of codasmith itself, ZeroDivisionError: no number",
        "exit_code": 1,
    }
    assert isinstance(result.exception, ZeroDivisionError)
