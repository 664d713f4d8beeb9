"""The eval set for training: questions, rewards, and an episode of the verifiers library with a scripted policy."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import pytest
from codasmith.agent.errors import UserMistake
from codasmith.agent.prompt import system_text, task_text
from codasmith.evals.environment import STEPS, NoReward, judge, judge_batch, questions, reward
from codasmith.gate.verdict import Finding, StageResult, Verdict


def verdict(status, passed=(), failed=None, tax=None):
    stages = [StageResult(stage=s, outcome="passed") for s in passed]
    if failed:
        stages.append(StageResult(stage=failed, outcome="failed", finding=Finding(code="x", message="m")))
    timing = {"tax": tax} if tax else {}
    return Verdict(task="t", task_digest="d", candidate_digest="c", status=status, stages=tuple(stages), timing=timing)


def test_rewards_rise_with_the_stages_and_then_with_the_tax():
    ladder = [verdict("refused", STEPS[:i], STEPS[i]) for i in range(5)]
    values = [reward(v) for v in ladder]
    assert values[0] == 0.0 and values == sorted(set(values)) and values[-1] < 0.4
    assert reward(verdict("checked", STEPS[:3])) == 0.4
    taxes = [reward(verdict("passed", STEPS, tax=t)) for t in (3.0, 2.0, 1.5, 1.1, 1.0, 0.98)]
    assert taxes == [0.5, 0.5, 0.75, pytest.approx(0.95), 1.0, 1.0]


@pytest.mark.parametrize("stage", ["guards", "timing"])
def test_what_guards_and_clock_refuse_is_worth_nothing(stage):
    assert reward(verdict("refused", STEPS[: STEPS.index(stage)], stage)) == 0.0


def test_a_gate_that_breaks_gives_no_reward():
    with pytest.raises(NoReward):
        reward(verdict("failed"))


def test_a_batch_is_judged_at_the_same_time_in_its_order_and_one_broken_gate_spares_the_others(four, gate):
    together = threading.Barrier(2, timeout=20)

    def slow(task, source, **more):
        if "MEET" in source:
            together.wait()  # passes only where two are judged at once
        return gate(task, source, **more)

    task = four.tasks["linear_lse"]
    answers = [block("MEET tax=1.2 fast=1.1"), block("MEET WRONG"), block("BROKEN"), "no code", block("tax=1.0 fast=2")]
    found = judge_batch([(task, text) for text in answers], slow, workers=2)
    assert isinstance(found[2], NoReward) and "driver went away" in str(found[2])
    rewards = [j.reward for j in found if not isinstance(j, NoReward)]
    assert rewards == [pytest.approx(0.9), pytest.approx(0.4 / 7), 0.0, 1.0]


def test_questions_are_the_agents_own(four):
    found = {q.task: q for q in questions(four)}
    task = four.tasks["linear_lse"]
    assert found["linear_lse"].system == system_text(task) and found["linear_lse"].prompt == task_text(task)
    assert found["linear_lse"].digest == task.digest and len(found) == 4


def test_answers_are_judged_as_the_agent_judges_them(four, gate):
    task = four.tasks["linear_bias"]
    good = judge(task, "```python\nx = 1  # tax=1.1 fast=1.2\n```", gate)
    assert good.reward == pytest.approx(0.95) and good.verdict.status == "passed"
    wrong = judge(task, "```python\nx = 1  # WRONG\n```", gate)
    assert 0 < wrong.reward < 0.1 and "Halve it." in wrong.feedback
    empty = judge(task, "I would rather not.", gate)
    assert empty.reward == 0.0 and empty.verdict.finding is not None and empty.feedback


class Writer:
    """An agent of an episode that gives these answers in turn and remembers what it was told."""

    def __init__(self, *answers):
        self.answers, self.told = list(answers), []
        self.rewards, self.metrics = {}, {}

    @asynccontextmanager
    async def interaction(self, task):
        yield SimpleNamespace(turn=self.turn, trace=self)

    async def turn(self, message=None):
        self.told.append(message)
        return SimpleNamespace(terminated=False, last_reply=self.answers.pop(0))

    def record_reward(self, name, value, weight=1.0):
        self.rewards[name] = value

    def record_metric(self, name, value):
        self.metrics[name] = value


@pytest.fixture
def episode(tmp_path, monkeypatch, gate):
    """Plays one episode under the library's own classes, found by it through a module of one line."""
    vf = pytest.importorskip("verifiers.v1", reason="the verifiers library is not installed (extra rl)")
    line = "from codasmith.evals.taskset import KernelEnv, KernelTaskset\n__all__ = ['KernelEnv', 'KernelTaskset']\n"
    (tmp_path / "codasmith_kernels.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    from codasmith.evals.taskset import KernelEnvConfig, KernelTasksetConfig

    def play(*answers, attempts=3):
        taskset = KernelTasksetConfig(id="codasmith_kernels", eval_set="coda-epilogue-v1")
        harness = {"id": "null"}
        config = KernelEnvConfig(
            taskset=taskset, attempts=attempts, writer={"harness": harness, "runtime": {"type": "subprocess"}}
        )
        env = vf.load_environment(config)
        env.gate = gate
        task = next(iter(env.taskset.include(names=["linear_bias"])))
        writer = Writer(*answers)
        asyncio.run(env.run(task, SimpleNamespace(writer=writer)))
        return task, writer

    return play


def test_the_librarys_own_command_takes_the_environment_by_its_id(episode, tmp_path, monkeypatch):
    from verifiers.v1.cli.eval.main import main

    monkeypatch.chdir(tmp_path)
    where = [
        "codasmith_kernels",
        "--env.id",
        "codasmith_kernels",
        "--no-push",
        "--no-rich",
        "-o",
        str(tmp_path / "out"),
    ]
    writer = ["--env.writer.harness.id", "null", "--env.writer.runtime.type", "subprocess", "--model", "scripted"]
    asked = ["--env.taskset.eval-set", "coda-epilogue-v1", "--env.attempts", "2", "--dry-run", "true"]
    with suppress(SystemExit):
        main([*where, *writer, *asked])
    (file,) = (tmp_path / "out").rglob("eval.json")
    written = json.loads(file.read_text())["env"]
    assert written["attempts"] == 2 and written["taskset"]["eval_set"] == "coda-epilogue-v1"


def test_an_environment_without_a_set_says_how_to_name_one(episode):
    from codasmith.evals.taskset import KernelTaskset, KernelTasksetConfig

    with pytest.raises(UserMistake, match="no eval set is named; give --env"):
        next(iter(KernelTaskset(KernelTasksetConfig(id="codasmith_kernels")).load()))


def block(words):
    return f"```python\nx = 1  # {words}\n```"


def test_an_episode_goes_on_with_the_gates_words_and_keeps_the_best_reward(episode):
    task, writer = episode(block("WRONG"), block("tax=1.2 fast=1.1"))
    assert task.data.name == "linear_bias" and "bias" in task.data.prompt
    assert writer.told[0] is None and "y is off by" in writer.told[1]
    assert writer.rewards == {"kernel": pytest.approx(0.9)}
    assert writer.metrics == {"passed": 1.0, "tax": 1.2}


def test_an_episode_ends_with_its_attempts(episode):
    _, writer = episode(block("WRONG 1"), block("WRONG 2"), "nothing", attempts=2)
    assert len(writer.told) == 2 and writer.answers == ["nothing"]
    assert 0 < writer.rewards["kernel"] < 0.1 and writer.metrics == {"passed": 0.0}
