"""What the gate says of a candidate: one verdict, made of stage results and findings.

Frozen data with a JSON round-trip: a verdict is journalled, shown, compared and kept in a record.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

STAGES = ("read", "interpret", "compile", "tune", "numerics", "guards", "timing", "sanitizer")
CPU_STAGES = ("read", "interpret", "compile")

StageName = Literal["read", "interpret", "compile", "tune", "numerics", "guards", "timing", "sanitizer"]
Status = Literal["admitted", "passed", "checked", "refused", "failed"]
Tier = Literal["closed", "cutedsl"]


class Finding(BaseModel):
    """Why a stage stopped, in words that a person or a model can act on."""

    model_config = ConfigDict(frozen=True)

    code: str
    """A short stable name, such as "unknown-name", "wrong-values", "compiler-error"."""
    message: str
    """One sentence: the thing, and the value that was found."""
    remedy: str = ""
    """One sentence: what to write or do instead."""
    line: int | None = None
    """Line in the candidate's source, from 1."""
    output: str | None = None
    """The output that is wrong, where it is about one."""
    details: dict[str, Any] = Field(default_factory=dict)
    """More for those who want it: coordinates, values, compiler text."""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.message}" + (f" {self.remedy}" if self.remedy else "")


class StageResult(BaseModel):
    """One stage: passed, failed with a finding, or not run with a reason."""

    model_config = ConfigDict(frozen=True)

    stage: StageName
    outcome: Literal["passed", "failed", "skipped"]
    seconds: float = 0.0
    finding: Finding | None = None
    note: str = ""
    """One line for a table: what was measured, or why it was not run."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What the stage measured, per schedule and workload."""


class Verdict(BaseModel):
    """The gate's answer for one candidate."""

    model_config = ConfigDict(frozen=True)

    task: str
    task_digest: str
    candidate_digest: str
    tier: Tier = "closed"
    status: Status
    """"passed": every stage on a real GPU. "admitted": passed, and kept in the registry. "checked": the
    stages that need no GPU passed and nothing more was tried. "refused": a stage found fault with the
    candidate. "failed": the gate itself could not finish (says why); nothing is claimed."""
    stages: tuple[StageResult, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    """GPU, driver, and versions, where a GPU was used."""
    timing: dict[str, Any] = Field(default_factory=dict)
    """Tax, speed-up and share of the roofline by workload."""
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.status in ("admitted", "passed", "checked")

    @property
    def finding(self) -> Finding | None:
        """The finding that stopped it, if one did."""
        return next((s.finding for s in self.stages if s.outcome == "failed" and s.finding), None)

    @property
    def reached(self) -> int:
        """How many stages passed: a crude order among failed candidates."""
        return sum(s.outcome == "passed" for s in self.stages)

    @property
    def tax(self) -> float | None:
        """Geometric-mean tax over the timed workloads, if it was timed."""
        return self.timing.get("tax")


def key_of(stage: str, schedule: str) -> str:
    """How a verdict and the registry name an object: "128x128-pingpong-2x1", "down.128x128-pingpong-2x1"."""
    return f"{stage}.{schedule}" if stage else schedule
