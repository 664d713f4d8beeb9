"""The gate: one candidate through the stages in order of cost, to one verdict.

read, interpret and compile run here and in the compile server, without a GPU; tune, numerics, guards and
timing run at the referee.  Without a GPU the verdict ends at "checked", which admits nothing.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..primitives import Graph
from ..primitives.graph import Builder
from ..tasks import ProgramTask, Task, TaskError, Workload
from ..tasks.tensor import beside
from ..templates import ABI
from ..templates.compile import Compiled
from ..templates.generate import Frame, generate
from ..templates.schedule import Schedule, schedules_for
from ..templates.signature import Signature, TensorSpec
from .compile import ENVIRONMENT, compile_stage
from .interpret import interpret_stage
from .machine import environment, has_gpu
from .pipe import ChildFailed
from .read import read_stage
from .session import Session
from .stages import compile_program, interpret_program, read_program
from .timing import summarise
from .verdict import StageResult, Status, Tier, Verdict, key_of

Progress = Callable[[str, str], None]
"""progress(stage, one line)"""

ROUNDS = 25
BARE = 4
"""How many schedules of the bare template the tax is measured against, beside cuBLAS."""

NOT_SANITIZED = "not run here: it is run over what passed, many kernels at once (sanitize)"

_session: Session | None = None
_making = threading.Lock()


@dataclass(frozen=True)
class Evaluation:
    """A verdict, and what it was given for."""

    verdict: Verdict
    source: str
    task: Task
    tier: Tier
    storage: str
    objects: dict[str, Path] = field(default_factory=dict)
    """The gated objects, by schedule; of a program by stage and schedule, as `key_of` joins them."""
    signatures: dict[str, Signature] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    """The epilogues as data, where the tier has them, by stage; "" names the only one of a plain task."""

    @property
    def graph(self) -> Graph | None:
        """The only epilogue of a plain task."""
        return self.graphs.get("")


def session() -> Session:
    """The process's compile server and referee, made at first use."""
    global _session
    with _making:
        if _session is None:
            _session = Session()
        return _session


def evaluate(
    task: Task,
    source: str,
    *,
    tier: Tier = "closed",
    storage: str | None = None,
    cpu_only: bool = False,
    progress: Progress | None = None,
    workspace: Path | None = None,
    schedules: Sequence[Schedule] | None = None,
    workloads: Sequence[Workload] | None = None,
    compile_baseline: bool = True,
    rounds: int = ROUNDS,
) -> Evaluation:
    """Judge one candidate.

    source: the candidate file's text. tier: "closed" (read, never executed) or "cutedsl" (compiled in a child).
    storage: "bf16", "fp16", or "fp8" for tasks that say where the operands' scales go; the task's usual one by default.
    schedules: those that suit the storage dtype by default. cpu_only: stop after the stages that need no GPU.
    workloads: what to time; the task's own by default. compile_baseline: measure torch.compile of the reference too.
    Never raises for what a candidate does; whatever stops the gate itself gives the status "failed".
    """
    say = progress or (lambda stage, line: None)
    gpu = not cpu_only and has_gpu()
    storage = storage or task.usual_storage
    run = _Run(task, source, tier, storage, say)
    try:
        task.check_storage(storage)
        run.read_and_interpret()
        if run.stopped:
            return run.end("refused")
        if workspace is not None:
            session().compiler.folder = workspace
        if gpu:
            session().compiler.start()
        run.compile(schedules or schedules_for(storage))
        if run.stopped:
            if run.stages[-1].finding and run.stages[-1].finding.code == ENVIRONMENT:
                return run.fail(str(run.stages[-1].finding))
            return run.end("refused")
        if not gpu:
            run.skip("a Hopper GPU is needed" if not cpu_only else "only the stages without a GPU were asked for")
            return run.end("checked")
        run.judge(workloads, compile_baseline, rounds)
        if not run.stopped:
            run.stages.append(StageResult(stage="sanitizer", outcome="skipped", note=NOT_SANITIZED))
        return run.end("refused" if run.stopped else "passed")
    except (ChildFailed, TaskError, OSError) as error:
        return run.fail(f"{type(error).__name__}: {error}" if isinstance(error, OSError) else str(error))


def check(task: Task, source: str, **options: Any) -> Evaluation:
    """The stages that need no GPU."""
    return evaluate(task, source, cpu_only=True, **options)


class _Run:
    def __init__(self, task: Task, source: str, tier: Tier, storage: str, say: Progress):
        self.task, self.source, self.tier, self.storage, self.say = task, source, tier, storage, say
        self.stages: list[StageResult] = []
        self.graphs: dict[str, Graph] = {}
        self.compiled: dict[str, list[Compiled]] = {}
        self.gated: list[str] | None = None
        self.environment: dict[str, str] = {}

    @property
    def stopped(self) -> bool:
        return any(s.outcome == "failed" for s in self.stages)

    def read_and_interpret(self) -> None:
        self.say("read", "reading the candidate")
        started = time.perf_counter()
        if isinstance(self.task, ProgramTask):
            result, self.graphs = read_program(self.task, self.source, self.tier)
        else:
            result, graph = read_stage(self.task, self.source, self.tier)
            self.graphs = {"": graph} if graph else {}
        self._add(result, started)
        if self.stopped:
            return
        if not self.graphs:
            self.stages.append(
                StageResult(stage="interpret", outcome="skipped", note="the open tier is not interpreted")
            )
            return
        started = time.perf_counter()
        self.say("interpret", "computing it in float64 on small shapes")
        if isinstance(self.task, ProgramTask):
            self._add(interpret_program(self.task, self.graphs), started)
        else:
            self._add(interpret_stage(self.task, self.graphs[""]), started)

    def compile(self, schedules: Sequence[Schedule]) -> None:
        started = time.perf_counter()
        self.say("compile", f"compiling {len(schedules)} schedules for sm_90a")
        how: dict[str, Any] = {
            "storage": self.storage,
            "compiler": session().compiler,
            "schedules": schedules,
            "progress": self.say,
        }
        if isinstance(self.task, ProgramTask):
            result, self.compiled = compile_program(self.task, self.graphs, **how)
        else:
            result, kept = compile_stage(self.task, self.graphs.get(""), self.source, tier=self.tier, **how)
            self.compiled = {"": kept}
        self._add(result, started)

    def judge(self, workloads: Sequence[Workload] | None, compile_baseline: bool, rounds: int) -> None:
        task, storage = self.task, self.storage
        self.environment = environment()
        bare = [f.result() for f in [session().compiler.submit(s, g) for s, g in bare_kernels(task, storage)]]
        timed = list(workloads if workloads is not None else task.workloads(storage))
        job = {
            "task": f"{task.path}:{task.name}",
            "storage": storage,
            "candidate": [_object(c, stage) for stage, kept in self.compiled.items() for c in kept if c.ok],
            "bare": [_object(c) for c in bare if c.ok],
            "timed": [w.model_dump(mode="json") for w in timed],
            "checked": [w.model_dump(mode="json") for w in task.correctness_workloads(storage)],
            "tier": self.tier,
            "rounds": rounds,
            "compile_baseline": compile_baseline,
            "plain": [stage for stage, graph in self.graphs.items() if len(graph.nodes) == 1],
            "graph": self.graphs[""].model_dump(mode="json") if "" in self.graphs else None,
        }
        self.say("tune", "racing the schedules")
        stages = session().judge(job, self.say)
        self.stages += stages
        for stage in stages:
            self.say(stage.stage, stage.note or str(stage.finding or ""))
            if stage.stage == "tune" and stage.outcome == "passed":
                self.gated = stage.data["gated"]
            if stage.stage == "timing" and stage.outcome == "passed" and not isinstance(task, ProgramTask):
                won = {row["schedule"] for row in stage.data["workloads"]}
                self.gated = [name for name in self.gated or () if name in won] or self.gated

    def skip(self, reason: str) -> None:
        for stage in ("tune", "numerics", "guards", "timing"):
            self.stages.append(StageResult.model_validate({"stage": stage, "outcome": "skipped", "note": reason}))

    def end(self, status: Status) -> Evaluation:
        named = {key_of(stage, c.schedule): c for stage, found in self.compiled.items() for c in found if c.ok}
        kept = (
            {}
            if status in ("refused", "failed")
            else {key: c for key, c in named.items() if self.gated is None or key in self.gated}
        )
        timing: dict[str, Any] = {}
        for stage in self.stages:
            if stage.stage == "timing" and stage.data:
                timing = {**summarise(stage.data["workloads"]), "workloads": stage.data["workloads"]}
        verdict = Verdict(
            task=self.task.name,
            task_digest=self.task.digest,
            candidate_digest=candidate_digest(self.task, self.source),
            tier=self.tier,
            status=status,
            stages=tuple(self.stages),
            environment=self.environment,
            timing=timing,
        )
        return Evaluation(
            verdict=verdict,
            source=self.source,
            task=self.task,
            tier=self.tier,
            storage=self.storage,
            objects={key: c.object for key, c in kept.items() if c.object},
            signatures={key: c.signature for key, c in kept.items() if c.signature},
            graphs=self.graphs,
        )

    def fail(self, note: str) -> Evaluation:
        evaluation = self.end("failed")
        verdict = evaluation.verdict.model_copy(update={"note": f"the gate could not finish: {note}"})
        return Evaluation(verdict, self.source, self.task, self.tier, self.storage)

    def _add(self, result: StageResult, started: float) -> None:
        if not result.seconds:
            result = result.model_copy(update={"seconds": time.perf_counter() - started})
        self.stages.append(result)
        self.say(result.stage, result.note or str(result.finding or result.outcome))


def candidate_digest(task: Task, source: str) -> str:
    """sha256 over the source, the task and the template's ABI."""
    return hashlib.sha256("\0".join((source, task.digest, ABI)).encode()).hexdigest()


def bare_kernels(task: Task, storage: str) -> list[tuple[str, Signature]]:
    """The template without an epilogue for each way in which the task's operands lie: sources and signatures."""
    ways = dict.fromkeys((part.gemm.a_transposed, part.gemm.b_transposed) for part in task.parts.values())
    return [kernel for at, bt in ways for kernel in _bare(at, bt, storage)]


def _bare(at: bool, bt: bool, storage: str) -> list[tuple[str, Signature]]:
    builder = Builder()
    graph = builder.finish({"product": builder.acc()})
    m, n, k = (1, "M"), (1, "N"), (1, "K")
    # The same names for every task, so that every task shares the compiled objects.
    frame = Frame(
        task="bare",
        storage=storage,
        a="a",
        a_transposed=at,
        b="b",
        b_transposed=bt,
        tensors={
            "a": TensorSpec(shape=(k, m) if at else (m, k), dtype=storage),
            "b": TensorSpec(shape=(n, k) if bt else (k, n), dtype=storage),
            "product": TensorSpec(shape=(m, n), dtype=beside(storage)),
        },
        inputs=("a", "b"),
        outputs=("product",),
    )
    generated = [generate(graph, frame, schedule) for schedule in schedules_for(storage)[:BARE]]
    return [(g.source, g.signature) for g in generated]


def _object(compiled: Compiled, stage: str = "") -> dict[str, Any]:
    assert compiled.signature is not None
    return {"object": str(compiled.object), "signature": compiled.signature.model_dump(mode="json"), "stage": stage}
