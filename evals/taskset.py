"""The eval set as an environment of the `verifiers` library (0.4.0, the extra `rl`): id `codasmith.evals.taskset`.

The gate plays the user: the model answers, is told what the gate said, and tries again; the best attempt's reward is
the episode's.  Of many episodes at a time the gate compiles side by side, and judges on the GPU one by one.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import verifiers.v1 as vf

from ..agent.errors import UserMistake
from ..agent.loop import Gate
from ..tasks import load_task
from .environment import Judged, judge, questions
from .evalset import load_set
from .judging import judging

__all__ = ["KernelEnv", "KernelTaskset"]


class KernelTasksetConfig(vf.TasksetConfig):
    """Which tasks."""

    eval_set: str = ""
    """An eval set's folder, as `codasmith evals generate` wrote it, or a name. To be given, for there is none to train
    on that would do for everybody; the library itself makes configurations without it."""


class KernelData(vf.TaskData):
    """One task."""

    where: str
    """What `load_task` takes."""
    digest: str


class KernelTask(vf.Task[KernelData, vf.State, vf.TaskConfig]):
    """Scored by the environment, which sees every attempt."""


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    """The tasks of an eval set, each as the agent asks it."""

    def load(self) -> Iterator[KernelTask]:
        if not self.config.eval_set:
            raise UserMistake("no eval set is named; give --env.taskset.eval-set, a folder or coda-epilogue-v1")
        for question in questions(load_set(self.config.eval_set)):
            data = KernelData(
                name=question.task,
                system_prompt=question.system,
                prompt=question.prompt,
                where=question.where,
                digest=question.digest,
            )
            yield KernelTask(data, self.config.task)


class KernelEnvConfig(vf.EnvConfig):
    """How an episode goes."""

    writer: vf.AgentConfig = vf.AgentConfig()
    attempts: int = 4
    """Answers of an episode, at most; it ends with the first that passes."""
    storage: str = "bf16"
    cpu_only: bool = False
    """Only the stages that need no GPU: the reward then ends at 0.4 and says nothing of speed."""


class KernelEnv(vf.Env[KernelEnvConfig]):
    """One episode: attempts at one task, with the gate's word between them."""

    gate: Gate | None = None
    """In the place of the machine's own, if set; called by several threads."""
    _making = threading.Lock()

    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        problem = load_task(task.data.where)
        best: Judged | None = None
        async with agents.writer.interaction(task) as interaction:
            segment = await interaction.turn()
            for attempt in range(1, self.config.attempts + 1):
                if segment.terminated:
                    break
                judged = await asyncio.to_thread(self._judge, problem, segment.last_reply)
                best = judged if best is None or judged.reward > best.reward else best
                if judged.verdict.ok or attempt == self.config.attempts:
                    break
                segment = await interaction.turn(judged.feedback)
            trace = interaction.trace  # while it is open, so that the library's own lines say the reward too
            trace.record_reward("kernel", best.reward if best else 0.0)
            trace.record_metric("passed", float(best is not None and best.verdict.status in ("passed", "admitted")))
            if best is not None and best.verdict.tax is not None:
                trace.record_metric("tax", best.verdict.tax)

    def _judge(self, problem: object, text: str) -> Judged:
        with self._making:
            if self.gate is None:
                self._kept = tempfile.TemporaryDirectory(prefix="codasmith-judged-")
                self.gate = judging(Path(self._kept.name), self.config.storage, self.config.cpu_only)
        return judge(problem, text, self.gate)  # type: ignore[arg-type]
