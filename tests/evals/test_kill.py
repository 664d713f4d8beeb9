"""Runs killed at random moments and gone on with leave the file that a quiet run leaves.

Each child is killed (SIGKILL) by a process of its own, some moments after a question, so that however busy the machine,
something is done, and not all: a parent that kills may come too late, and find a child that has finished.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from codasmith.agent.prompt import system_text
from codasmith.evals.hand_written import HandWritten
from codasmith.evals.jobs import jobs
from codasmith.evals.results import write_results
from codasmith.evals.run_folder import RunFolder
from codasmith.evals.runs import run

PAUSE = 0.03
LONGEST = 0.02
"""Of a child, in seconds after the question that starts the timer: less than a pause, so it comes to few more."""


def go(asked, four, path, gate, dice, workers, pause, begin=lambda: None):
    """The run, slow enough to be killed in the midst of things. begin: called before each question and judgement."""

    def slowly(task, source, **more):
        begin()
        time.sleep(pause)
        return gate(task, source, **more)

    def before():
        begin()
        time.sleep(pause)

    def make(name, tier):
        return HandWritten(tier) if name == "hand-written" else dice(name, 0.5, before=before)

    assert run(asked, four, RunFolder(path), make=make, gate=slowly, workers=workers) == []


def mortal(questions, after):
    """Something to call at each question: from that many on, a clock runs, at whose end this process is killed."""
    hear, tell = os.pipe()
    victim = os.getpid()
    if os.fork() == 0:
        os.close(tell)
        if os.read(hear, 1):  # nothing where the victim ended by itself
            time.sleep(after)
            os.kill(victim, signal.SIGKILL)
        os._exit(0)
    os.close(hear)
    asked = []

    def begin():
        asked.append(1)
        if len(asked) == questions:
            os.write(tell, b"x")

    return begin


@pytest.mark.parametrize("workers", [1, 3])
def test_ten_kills_at_random_moments_change_nothing(tmp_path, four, spec, gate, dice, workers):
    asked = spec(four, "a", "b", samples=1)
    for task in four.tasks.values():
        system_text(task)  # what the children need is loaded before they are forked
    questions = []
    go(asked, four, tmp_path / "quiet", gate, dice, workers, 0.0, begin=lambda: questions.append(1))
    rng, progress = random.Random(workers), []
    for _ in range(10):
        life = workers - 1 + rng.randint(1, 3), rng.uniform(0.001, LONGEST)
        pid = os.fork()
        if pid == 0:
            try:
                begin = mortal(*life)
                go(asked, four, tmp_path / "killed", gate, dice, workers, PAUSE, begin)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        progress.append(len(RunFolder(tmp_path / "killed").rows()))
    assert progress == sorted(progress) and progress[-1] < len(jobs(asked, four))
    asked_again = []
    go(asked, four, tmp_path / "killed", gate, dice, workers, 0.0, begin=lambda: asked_again.append(1))
    assert 0 < len(asked_again) < len(questions), "what was done before the kills is not done again"
    quiet, killed = ((tmp_path / p / "results.jsonl").read_bytes() for p in ("quiet", "killed"))
    if workers == 1:
        assert killed == quiet
    assert sorted(killed.splitlines()) == sorted(quiet.splitlines())
    for path in ("quiet", "killed"):
        write_results(RunFolder(tmp_path / path), four)
    assert (tmp_path / "killed" / "results.json").read_bytes() == (tmp_path / "quiet" / "results.json").read_bytes()


@pytest.mark.slow
def test_the_command_killed_ten_times_with_the_gate_of_this_machine_gives_the_same_result_file(tmp_path):
    """The stages without a GPU, for real. Seconds differ between runs, so rows do; results.json must not."""
    command = [sys.executable, "-m", "codasmith.agent", "eval", "--cpu-only", "--samples", "1", "--budget", "2"]
    command += [word for task in ("linear_bias", "linear_silu", "linear_lse") for word in ("--task", task)]
    environment = {**os.environ, "CODASMITH_CACHE": str(tmp_path / "cache")}

    def begin(out):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*command, "--out", str(out)], env=environment, start_new_session=True, **quiet)

    rng = random.Random(0)
    killed = 0
    for _ in range(10):
        process = begin(tmp_path / "killed")
        ends = time.monotonic() + 60
        while not (tmp_path / "killed" / "journals").exists() and time.monotonic() < ends:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 6.0))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed >= 5, "a run that had ended could not be killed"
    for out in ("killed", "quiet"):
        assert begin(tmp_path / out).wait() == 0
    assert (tmp_path / "killed" / "results.json").read_bytes() == (tmp_path / "quiet" / "results.json").read_bytes()
