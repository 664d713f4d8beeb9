"""A run of the evals: every model on every task, several samples each, some at a time, resumable at any point.

Models answer at the same time, and candidates are compiled ahead of the GPU, which judges one at a time, so that
nothing disturbs its clock.  Whatever happens is in the samples' journals, so a crash loses at most the attempts under
way, and the same command goes on.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..agent.errors import AgentError, Interrupted, UserMistake
from ..agent.loop import Gate
from ..agent.models import Answer, Message, Model, OnText, make_model
from .evalset import PUBLIC, LoadedSet, load_set
from .hand_written import NAME as HAND_WRITTEN
from .hand_written import HandWritten
from .jobs import BASELINES, Job, jobs, part_of
from .judging import TimeUp, judging
from .rows import Row
from .run_folder import RunFolder, RunSpec
from .sample import MakeModel, Unfinished, budget_of, run_sample

if TYPE_CHECKING:
    from .results import Results

TARGET_TAX = 1.02
WORKERS = 4
GRACE_S = 12.0
"""What is waited, once the time is up, for the judgement that the GPU is at."""
TIME_UP = "the time was up"


def score(
    models: Sequence[str],
    *,
    samples: int = 4,
    attempts: int = 20,
    eval_set: str | Path = PUBLIC,
    out: str | Path | None = None,
    cpu_only: bool = False,
    workers: int = WORKERS,
    limit_s: float | None = None,
    say: Callable[[str], None] = lambda line: None,
    **more: Any,
) -> Results:
    """Run models on an eval set and score them; writes the run's folder, results.json and report.html.

    models: names as for `codasmith run`. more: other fields of `RunSpec`, such as tasks, tiers, target_tax, shapes.
    limit_s: ask and judge nothing more after so many seconds; the same call goes on.
    Raises UserMistake, ModelError or MachineCannot, each in one sentence.
    """
    from .results import write_results

    loaded = load_set(eval_set)
    spec = make_spec(models, loaded, eval_set, samples=samples, attempts=attempts, cpu_only=cpu_only, **more)
    folder = RunFolder(Path(out) if out is not None else default_folder(loaded))
    run(spec, loaded, folder, workers=workers, limit_s=limit_s, say=say)
    return write_results(folder, loaded)


def make_spec(
    models: Sequence[str],
    loaded: LoadedSet,
    eval_set: str | Path,
    *,
    samples: int,
    attempts: int | None,
    cpu_only: bool,
    target_tax: float | None = TARGET_TAX,
    **more: Any,
) -> RunSpec:
    """What is asked, checked. Raises UserMistake."""
    from .. import gate

    if samples < 1:
        raise UserMistake(f"--samples {samples} asks for nothing; give 1 or more")
    if (shapes := more.get("shapes")) is not None and shapes < 1:
        raise UserMistake(f"--shapes {shapes} times nothing; give 1 or more, or leave it out for all")
    twice = next((m for m in models if list(models).count(m) > 1), None)
    if twice or set(models) & set(BASELINES):
        name = twice or next(m for m in models if m in BASELINES)
        why = "is named twice" if twice else "is in every run already"
        raise UserMistake(f"the model {name} {why}; name each model once")
    for name in more.get("tasks") or ():
        if name not in loaded.tasks:
            raise UserMistake(
                f"the set {loaded.spec.name!r} has no task {name!r}; `codasmith evals list` shows those it has"
            )
    spec = RunSpec(
        version=version("codasmith"),
        set=str(eval_set),
        set_digest=loaded.spec.digest,
        models=tuple(models),
        samples=samples,
        attempts=attempts,
        target_tax=target_tax,
        cpu_only=cpu_only or not gate.has_gpu(),
        **more,
    )
    part_of(spec.shard)
    return spec


def default_folder(loaded: LoadedSet) -> Path:
    """Where a run goes that names no folder."""
    return Path("runs") / f"eval-{loaded.spec.name}"


def run(
    spec: RunSpec,
    loaded: LoadedSet,
    folder: RunFolder,
    *,
    workers: int = WORKERS,
    limit_s: float | None = None,
    make: MakeModel | None = None,
    gate: Gate | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Unfinished]:
    """Make every sample that is not there yet, `workers` at a time; return those that could not be finished.

    limit_s: after so many seconds nothing more is asked or judged; the judgement under way ends.
    make and gate take the place of the real ones, and such a gate is asked one thing at a time. say: told one line a
    sample.
    Raises UserMistake, TaskError, ModelError or MachineCannot; Interrupted on Ctrl-C.
    """
    if workers < 1:
        raise UserMistake(f"--workers {workers} does nothing; give 1 or more")
    stopping = threading.Event()
    ends = time.monotonic() + limit_s if limit_s is not None else float("inf")

    def in_time() -> None:
        if time.monotonic() > ends:
            raise TimeUp

    make = make or _make(spec)
    tracing = threading.Lock()
    gate = (
        _one_at_a_time(gate, in_time)
        if gate
        else judging(folder.path, spec.storage, spec.cpu_only, spec.shapes, in_time=in_time)
    )
    for model in spec.models:  # a wrong name or a missing key is said before anything is asked
        make(model, spec.tiers[0])
    all_jobs = jobs(spec, loaded)
    for job in all_jobs:
        job.task.check_storage(spec.storage)
    with folder:
        folder.open(spec)
        there = {row.key for row in folder.rows()}
        left = {job.key: job for job in all_jobs if job.key not in there}
        pending = deque(left.values())
        done = len(all_jobs) - len(pending)
        if done:
            say(f"{done} of {len(all_jobs)} samples are there already")
        if pending:
            most = sum(budget_of(job, spec).attempts or 0 for job in pending)
            questions = f", {most:,} questions at most" if spec.attempts else ""
            say(f"{len(pending)} samples to make, {workers} at a time{questions}; the run is in {folder.path}")
        outcomes: queue.Queue[Row | Unfinished | BaseException] = queue.Queue()

        def work() -> None:
            # What is interpreted here must not take every core from the processes that time kernels.
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // workers))
            while not stopping.is_set():
                try:
                    job = pending.popleft()
                except IndexError:
                    return
                asked = lambda name, tier: _Asked(make(name, tier), stopping, tracing, in_time)  # noqa: E731
                try:
                    in_time()
                    outcomes.put(_outcome(job, spec, folder, asked, gate))
                except TimeUp:
                    outcomes.put(Unfinished(job, TIME_UP))

        reasons: dict[Any, str] = {}
        for _ in range(min(workers, len(left))):
            threading.Thread(target=work, daemon=True).start()
        try:
            while len(reasons) < len(left):
                outcome = _next(outcomes, ends + GRACE_S)
                if outcome is None:  # what is still at work would take longer than was asked; it is gone on with later
                    break
                if isinstance(outcome, BaseException):
                    raise outcome
                if isinstance(outcome, Unfinished):
                    reasons[outcome.job.key] = outcome.reason
                    if outcome.reason != TIME_UP:
                        say(f"{outcome.job}: not finished: {outcome.reason}")
                    continue
                folder.add(outcome)
                del left[outcome.key]
                done += 1
                say(f"[{done}/{len(all_jobs)}] {_line(outcome)}")
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; the same command goes on with {folder.path}") from None
        finally:
            stopping.set()
    return [Unfinished(job, reasons.get(key, TIME_UP)) for key, job in left.items()]


def _next(outcomes: queue.Queue, ends: float) -> Row | Unfinished | BaseException | None:
    """The next outcome; None where there is none by then, on the monotonic clock."""
    try:
        return outcomes.get(timeout=max(0.0, ends - time.monotonic()) if ends != float("inf") else None)
    except queue.Empty:
        return None


def _outcome(
    job: Job, spec: RunSpec, folder: RunFolder, make: MakeModel, gate: Gate
) -> Row | Unfinished | BaseException:
    try:
        return run_sample(job, spec, folder, make, gate)
    except TimeUp:
        raise
    except (AgentError, KeyboardInterrupt) as error:
        return error
    except Exception as error:  # one sample's fault must not end the others
        return Unfinished(job, f"{type(error).__name__}: {error}")


class _Asked:
    """A model among others: asked nothing more once the run is to stop.

    The baselines compute in this process, with tracing of torch's that is not made for threads, so one answers at a
    time.
    """

    def __init__(self, model: Model, stopping: threading.Event, tracing: threading.Lock, in_time: Callable[[], None]):
        self._model, self._stopping, self._in_time, self.name = model, stopping, in_time, model.name
        self.gives_up_after = getattr(model, "gives_up_after", None)
        self._held: AbstractContextManager = tracing if model.name in BASELINES else nullcontext()

    def prepare(self, task: Any) -> None:
        if hasattr(self._model, "prepare"):
            self._model.prepare(task)

    def recall(self, answers: list[str]) -> None:
        if hasattr(self._model, "recall"):
            self._model.recall(answers)

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        if self._stopping.is_set():
            raise KeyboardInterrupt
        self._in_time()
        with self._held:
            return self._model.answer(messages, max_tokens=max_tokens, on_text=on_text)


def _make(spec: RunSpec) -> MakeModel:
    def make(name: str, tier: str) -> Model:
        if name == HAND_WRITTEN:
            return HandWritten(tier)
        return make_model(name, **({} if name in BASELINES else spec.model_options))

    return make


def _one_at_a_time(gate: Gate, in_time: Callable[[], None]) -> Gate:
    lock = threading.Lock()

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        with lock:
            in_time()
            return gate(*args, **kwargs)

    return evaluate


def _line(row: Row) -> str:
    tax = f", tax {row.tax:.3f}" if row.tax is not None else ""
    tries = f", attempt {row.best} of {len(row.attempts)}" if row.best else ""
    tier = f" ({row.tier})" if row.tier != "closed" else ""
    return f"{row.model} on {row.task} #{row.sample}{tier}: {row.status}{tax}{tries}"
