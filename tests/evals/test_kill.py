"""Runs killed with SIGKILL at random moments and gone on with leave the file that a quiet run leaves."""

import os
import random
import signal
import time

import pytest
from codasmith.agent.prompt import system_text
from codasmith.evals.hand_written import HandWritten
from codasmith.evals.results import results_of
from codasmith.evals.run_folder import RunFolder
from codasmith.evals.runs import jobs, run


def go(asked, four, path, gate, dice, workers, pause):
    """The run, slow enough to be killed in the midst of things."""

    def slowly(task, source, **more):
        time.sleep(pause)
        return gate(task, source, **more)

    def make(name, tier):
        return HandWritten(tier) if name == "hand-written" else dice(name, 0.5, before=lambda: time.sleep(pause))

    assert run(asked, four, RunFolder(path), make=make, gate=slowly, workers=workers) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_ten_kills_at_random_moments_change_nothing(tmp_path, four, spec, gate, dice, workers):
    asked = spec(four, "a", "b", samples=1)
    for task in four.tasks.values():
        system_text(task)  # what the children need is loaded before they are forked
    go(asked, four, tmp_path / "quiet", gate, dice, workers, 0.0)
    rng, kills = random.Random(workers), 0
    progress = []
    while kills < 10:
        pid = os.fork()
        if pid == 0:
            try:
                go(asked, four, tmp_path / "killed", gate, dice, workers, 0.01)
                os._exit(0)
            finally:
                os._exit(1)
        time.sleep(rng.uniform(0.02, 0.12))
        os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status != -signal.SIGKILL:
            break
        kills += 1
        folder = RunFolder(tmp_path / "killed")
        progress.append(len(folder.rows()))
    assert kills == 10 and progress == sorted(progress) and 0 <= progress[0] <= progress[-1] < len(jobs(asked, four))
    go(asked, four, tmp_path / "killed", gate, dice, workers, 0.0)
    quiet, killed = ((tmp_path / p / "results.jsonl").read_bytes() for p in ("quiet", "killed"))
    if workers == 1:
        assert killed == quiet
    assert sorted(killed.splitlines()) == sorted(quiet.splitlines())
    one, two = (results_of(asked, four.spec, RunFolder(tmp_path / p).rows()) for p in ("quiet", "killed"))
    assert one.model_dump_json() == two.model_dump_json()
