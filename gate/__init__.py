"""The gate: the ordered stages that a candidate must pass, and the verdict that comes of them.

`evaluate` runs them all; `check` those that need no GPU.  Three roles in three kinds of process: the
coordinator (whoever calls), the compile children, and on a GPU the referee, which owns seeds, references and
the clock, with its runner, which loads compiled objects and launches them.  A program goes the same way with an
epilogue and compiled objects for each of its products.  Depends on `tasks` and `templates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .machine import describe_machine, has_gpu
from .verdict import CPU_STAGES, STAGES, Finding, StageResult, Verdict

if TYPE_CHECKING:
    from .pipeline import Evaluation, check, evaluate
    from .sanitizing import sanitize

__all__ = [
    "CPU_STAGES",
    "STAGES",
    "Evaluation",
    "Finding",
    "StageResult",
    "Verdict",
    "check",
    "describe_machine",
    "evaluate",
    "has_gpu",
    "sanitize",
]


def __getattr__(name: str) -> Any:
    # torch is imported with the pipeline: not for `codasmith --help`, nor for looking at a verdict.
    if name in ("evaluate", "check", "Evaluation"):
        from . import pipeline

        return getattr(pipeline, name)
    if name == "sanitize":
        from .sanitizing import sanitize

        return sanitize
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
