"""What the referee is given to judge, and how a stage refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..primitives import Graph
from ..tasks import ProgramTask, Task, Workload
from ..templates.signature import Signature
from .verdict import Finding, StageResult


class Refused(Exception):
    """A stage found fault with the candidate."""

    def __init__(self, finding: Finding, note: str = ""):
        super().__init__(str(finding))
        self.finding, self.note = finding, note


class NotAlone(RuntimeError):
    """Somebody else uses the GPU, and the times are not the kernel's. Whoever judges gives no verdict then."""


@dataclass(frozen=True)
class Object:
    """A compiled kernel as the referee knows it: where it lies and how it is called."""

    key: str
    path: str
    signature: Signature
    stage: str = ""
    """Which product of a program it is for."""

    @property
    def schedule(self) -> str:
        return self.signature.schedule.name

    @staticmethod
    def of(data: dict[str, Any]) -> Object:
        signature = Signature.model_validate(data["signature"])
        return Object(signature.symbol, data["object"], signature, data.get("stage", ""))


@dataclass(frozen=True)
class Chain:
    """A program's stages in order, each product with one of its compiled kernels; to be launched as one."""

    task: ProgramTask
    objects: dict[str, Object]
    """By stage."""

    @property
    def key(self) -> str:
        return "-".join(o.key for o in self.objects.values())

    @property
    def schedule(self) -> str:
        """Such as "up 128x256-coop-2x1, down 128x192-pingpong-2x1"."""
        return ", ".join(f"{stage} {o.schedule}" for stage, o in self.objects.items())


@dataclass
class Job:
    """One candidate under judgement."""

    task: Task
    storage: str
    candidate: list[Object] | list[Chain]
    """The compiled kernels; once a program is tuned, chains of those that are to be gated."""
    bare: list[Object]
    timed: list[Workload]
    checked: list[Workload]
    rounds: int
    compile_baseline: bool
    seed: int
    graph: Graph | None
    """The epilogue as data, where the tier has one: it tells which outputs can be exact."""
    say: Callable[[str, str], None]
    plain: tuple[str, ...] = ()
    """Stages of a program that only store their product."""
    stages: list[StageResult] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)
    tuned: dict[str, dict[str, float]] = field(default_factory=dict)
