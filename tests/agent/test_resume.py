"""Runs killed at every phase, in real child processes, and gone on with."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from codasmith.agent import campaign
from codasmith.agent.budget import Budget
from codasmith.agent.campaign_view import view
from codasmith.agent.errors import MachineCannot, UserMistake
from codasmith.agent.journal import Journal, read
from codasmith.agent.models import ModelError
from codasmith.agent.progress import Progress
from codasmith.agent.prompt import system_text
from codasmith.tasks import load_task
from rich.console import Console

ANSWERS = ("WRONG first", "tax=1.02 second")


@pytest.fixture
def gpu(monkeypatch, fake_gate):
    """The fake gate and a registry in the place of the real ones, as on a machine with a GPU."""
    admitted = []

    def admit(evaluation, task, author):
        admitted.append(evaluation.source)
        return {"name": f"{task.name}/abc", "digest": "abc"}

    fake_gate.admitted = admitted
    monkeypatch.setattr(campaign, "gate_and_admit", lambda storage, cpu_only: (fake_gate, None if cpu_only else admit))
    return fake_gate


def names(path):
    return [e["event"] for e in read(path)[0]]


WHOLE = ["start", "prompt", "answer", "verdict", "prompt", "answer", "verdict", "admitted", "stop"]


@pytest.mark.parametrize("events", range(1, len(WHOLE) + 1))
def test_a_run_killed_after_any_event_goes_on_and_asks_nothing_twice(
    tmp_path, task, gpu, scripted, code, killed, events
):
    path = tmp_path / "run.jsonl"
    system_text(task)  # what the child needs is loaded before it is forked
    whole = [code(a) for a in ANSWERS]
    killed(path, events, lambda: campaign.run(task, scripted(*whole), journal=path))
    assert names(path) == WHOLE[:events]

    left = whole[WHOLE[:events].count("answer") :]
    model = scripted(*left)
    result = campaign.resume(path, model=model)

    assert result.status == "admitted" and result.best.number == 2
    assert [a.verdict.status for a in result.attempts] == ["refused", "passed"]
    assert len(model.asked) == len(left) and model.answers == []
    after = [n for n in names(path) if n not in ("resumed", "stop")]
    expected = WHOLE[:-1]
    if events in (2, 5):  # asked and not answered: asked again
        expected = [*WHOLE[:events], "prompt", *WHOLE[events:-1]]
    if events == 7:  # passed and not kept: the gate makes the objects again
        expected = [*WHOLE[:7], "verdict", "admitted"]
    assert after == expected
    assert len(gpu.admitted) == (1 if events < 8 else 0)
    numbers = [e["n"] for e in read(path)[0]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_run_killed_inside_the_gate_has_its_answer_judged_again(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    system_text(task)
    pid = os.fork()
    if pid == 0:
        campaign.gate_and_admit = lambda *_: (lambda *a, **k: time.sleep(60), None)
        try:
            campaign.run(task, scripted(code("fine")), journal=path)
        finally:
            os._exit(0)
    while not (path.exists() and len(read(path)[0]) == 3):
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    result = campaign.resume(path, model=scripted())
    assert result.status == "checked" and names(path)[3:] == ["resumed", "verdict", "stop"]


def test_a_line_cut_by_the_kill_is_reported_and_asked_for_again(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path)
    data = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(data[:2]) + data[2][: len(data[2]) // 2])
    model = scripted(code("fine"))
    assert campaign.resume(path, model=model).status == "checked"
    assert len(model.asked) == 1
    assert "line 3" in read(path)[1][0]


def test_campaigns_at_once_in_one_folder_do_not_harm_each_other(tmp_path, task, gpu, scripted, code, monkeypatch):
    """Eight of the same task and model, begun at the same moment, with the journals that they choose themselves."""
    monkeypatch.chdir(tmp_path)
    begin = threading.Barrier(8, timeout=20)
    results = []

    def one(n):
        model = scripted(code(f"WRONG {n}"), code(f"tax=1.{n} x"))
        begin.wait()
        results.append((n, campaign.run(task, model)))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for n, _ in results) == list(range(8))
    assert len({result.journal for _, result in results}) == len(list(tmp_path.glob("runs/*.jsonl"))) == 8
    for n, result in results:
        assert names(result.journal) == WHOLE and read(result.journal)[1] == []
        assert view(result.journal).best.tax == result.best.verdict.tax == float(f"1.{n}")


def test_a_spent_budget_goes_on_when_it_is_raised(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    first = campaign.run(task, scripted(code("WRONG")), budget=Budget(attempts=1), journal=path)
    assert first.ended == "attempts"
    again = campaign.resume(path, model=scripted())
    assert again.ended == "attempts" and len(again.attempts) == 1
    result = campaign.resume(path, model=scripted(code("fine")), attempts=2)
    assert result.status == "checked" and len(result.attempts) == 2
    assert dict(view(path).facts)["budget"] == "2 attempts"


def test_a_run_that_has_ended_well_is_not_run_again(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("tax=1.01 x")), journal=path)
    result = campaign.resume(path, model=scripted())
    assert result.status == "admitted" and len(gpu.judged) == 1


def test_a_candidate_checked_without_a_gpu_is_verified_where_there_is_one(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    laptop = campaign.run(task, scripted(code("fine")), journal=path, cpu_only=True)
    assert laptop.status == "checked"
    campaign.resume(path, model=scripted(), cpu_only=False)
    assert len(gpu.judged) == 2


def test_going_on_with_a_gpu_where_there_is_none_says_so_and_writes_nothing(
    tmp_path, task, gpu, scripted, code, monkeypatch
):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path, cpu_only=True)
    before = path.read_bytes()
    monkeypatch.setattr(campaign, "gate_and_admit", lambda *_: (gpu, None))
    with pytest.raises(MachineCannot, match=r"--gpu asks for .* there is none here"):
        campaign.resume(path, model=scripted(), cpu_only=False)
    assert path.read_bytes() == before


def test_a_journal_of_a_newer_version_is_told_from_a_damaged_one(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path, cpu_only=True)
    first, *rest = path.read_text().splitlines(keepends=True)
    assert json.loads(first)["format"] == campaign.FORMAT
    path.write_text("".join([json.dumps(json.loads(first) | {"format": campaign.FORMAT + 1}) + "\n", *rest]))
    with pytest.raises(UserMistake, match=r"was written by a newer Codasmith .*update it"):
        campaign.resume(path, model=scripted())


@pytest.mark.parametrize("change", [{"budget": {"attempts": "many"}}, {"tier": "gold"}, {"storage": "fp4"}])
def test_a_start_with_a_value_that_cannot_be_is_refused(tmp_path, task, gpu, scripted, code, change):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path, cpu_only=True)
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps(json.loads(first) | change) + "\n", *rest]))
    with pytest.raises(UserMistake, match="does not say how its run was begun"):
        campaign.resume(path, model=scripted())
    assert view(path).best.number == 1  # what can be looked at still can


def test_a_run_in_fp8_goes_on(tmp_path, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    task = load_task("linear_scale_bias")
    first = campaign.run(task, scripted(code("WRONG")), budget=Budget(attempts=1), storage="fp8", journal=path)
    assert first.ended == "attempts"
    assert campaign.resume(path, model=scripted(code("tax=1.0 x")), attempts=2).status == "admitted"


def test_a_gate_that_could_not_finish_is_asked_again(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    assert campaign.run(task, scripted(code("BROKEN")), journal=path).ended == "gate"
    assert campaign.resume(path, model=scripted()).ended == "gate"
    assert len(gpu.judged) == 2


def test_a_replayed_journal_goes_on_at_its_next_answer(tmp_path, task, gpu, scripted, code):
    recorded, path = tmp_path / "recorded.jsonl", tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("WRONG"), code("fine")), journal=recorded)
    first = campaign.run(task, f"replay:{recorded}", budget=Budget(attempts=1), journal=path)
    assert first.ended == "attempts"
    result = campaign.resume(path, attempts=5)
    assert result.status == "checked" and [a.repeats for a in result.attempts] == [None, None]


def test_a_changed_task_is_refused(tmp_path, gpu, scripted, code):
    source = (
        "from codasmith.tasks import Tensor, task\n"
        '@task(gemm="x @ w.T", x=Tensor("M K"), w=Tensor("N K"), out={"y": Tensor("M N")})\n'
        'def mine(x, w):\n    return {"y": 2 * (x @ w.T)}\n'
    )
    file, path = tmp_path / "mine.py", tmp_path / "run.jsonl"
    file.write_text(source)
    campaign.run(str(file), scripted(code("WRONG")), budget=Budget(attempts=1), journal=path)
    assert campaign.resume(path, model=scripted(code("fine")), attempts=2).status == "checked"
    file.write_text(source.replace("2 *", "3 *"))
    with pytest.raises(UserMistake, match="'mine' has changed"):
        campaign.resume(path, model=scripted())


@pytest.mark.parametrize(
    "content", ["", "notes\n", '{"n": 1, "time": "2026-01-01T00:00:00+00:00", "event": "start"}\n']
)
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "file.txt"
    path.write_text(content)
    with pytest.raises(UserMistake, match="does not say how its run was begun"):
        campaign.resume(path)
    assert path.read_text() == content
    with pytest.raises(UserMistake, match="cannot be read"):
        campaign.resume(tmp_path / "missing.jsonl")


def test_a_journal_with_a_run_in_it_is_not_begun_again(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path)
    before = path.read_bytes()
    with pytest.raises(UserMistake, match="has a run in it"):
        campaign.run(task, scripted(code("fine")), journal=path)
    assert path.read_bytes() == before


def test_ctrl_c_on_the_command_line_stops_cleanly_and_the_run_goes_on(tmp_path):
    """The real command, asking a program that never answers."""
    path = tmp_path / "run.jsonl"
    line = f"{sys.executable} -c 'import time; time.sleep(60)'"
    command = [
        sys.executable,
        "-m",
        "codasmith.agent",
        "run",
        "linear_bias",
        "--model",
        f"command:{line}",
        "--cpu-only",
    ]
    process = subprocess.Popen(
        [*command, "--journal", path],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell leaves it ignored
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (path.exists() and "prompt" in names(path)):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == "" and f"codasmith resume {path}" in err and "Traceback" not in err
    assert names(path) == ["start", "prompt", "interrupted"]


def test_a_journal_that_asks_for_a_missing_model_is_a_sentence(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("fine")), journal=path)  # "scripted" is no model's name
    with pytest.raises(ModelError, match="unknown model 'scripted'"):
        campaign.resume(path)


def test_what_a_resume_was_given_holds_for_the_next_one_too(tmp_path, task, gpu, scripted, code):
    path = tmp_path / "run.jsonl"
    wrong = [code(f"WRONG {i}") for i in range(6)]
    campaign.run(task, scripted(*wrong[:1]), budget=Budget(attempts=1), patience=9, journal=path, cpu_only=True)
    stopped = scripted(wrong[1])

    def ctrl_c_at_the_second():
        if len(stopped.asked) == 2:
            raise KeyboardInterrupt

    stopped.before = ctrl_c_at_the_second
    with pytest.raises(KeyboardInterrupt):
        campaign.resume(path, model=stopped, attempts=4, patience=2, cpu_only=False)
    assert len(stopped.asked) == 2

    model = scripted(*wrong[2:])
    result = campaign.resume(path, model=model)
    assert (result.ended, len(result.attempts), len(model.asked)) == ("patience", 3, 1)
    last = [e for e in read(path)[0] if e["event"] == "resumed"][-1]
    assert (last["budget"]["attempts"], last["patience"], last["cpu_only"]) == (4, 2, False)


@pytest.mark.parametrize("damage", [{"budget": {"attempts": "many"}}, {"patience": "x", "cpu_only": 1}, {"budget": []}])
def test_a_damaged_resume_leaves_what_the_run_began_with(tmp_path, task, gpu, scripted, code, damage):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("WRONG 1")), budget=Budget(attempts=1), journal=path)
    with Journal(path) as book:
        book.write("resumed", **damage)
    assert campaign.resume(path, model=scripted()).ended == "attempts"


def test_a_run_that_had_ended_says_so_and_one_that_goes_on_does_not(tmp_path, task, gpu, scripted, code, capsys):
    path = tmp_path / "run.jsonl"
    campaign.run(task, scripted(code("WRONG 1")), budget=Budget(attempts=1), journal=path)
    told = Progress(Console(stderr=True, width=200))
    campaign.resume(path, model=scripted(), progress=told)
    assert "the run had ended (attempts); nothing was asked or judged anew" in capsys.readouterr().err
    campaign.resume(path, model=scripted(code("WRONG 2")), attempts=2, progress=told)
    assert "had ended" not in capsys.readouterr().err


def test_a_model_that_took_too_long_is_given_more_time_by_the_resume(tmp_path, task, gpu, code):
    program = tmp_path / "slow"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\nsleep 0.7\ncat <<'END'\n{code('tax=1.02 right')}\nEND\n")
    program.chmod(0o755)
    path, name = tmp_path / "run.jsonl", f"command:{program}"
    with pytest.raises(ModelError, match=r"within 0\.2 s and was killed; give it more with --timeout"):
        campaign.run(task, name, journal=path, model_options={"timeout": 0.2})
    result = campaign.resume(path, model_options={"timeout": 30.0})
    assert result.status == "admitted"
    assert [e["model_options"] for e in read(path)[0] if "model_options" in e] == [{"timeout": 0.2}, {"timeout": 30.0}]
