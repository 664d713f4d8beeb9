"""Which candidates are one kernel: those that read as the same graph, or in the open tier parse as the same module.

They are compiled from the same generated source, or run the same code, so the verdict of one holds for the others,
times included: judging them again would cost GPU seconds, and the noise of a clock would rank equal kernels.
"""

from __future__ import annotations

import ast
import hashlib
import json
from typing import TYPE_CHECKING

from ..gate.verdict import CPU_STAGES, Tier, Verdict

if TYPE_CHECKING:
    from ..tasks import Task


def kernel_key(verdict: Verdict, source: str, *more: str) -> str | None:
    """Of the kernel, from a verdict whose first stage passed; None where that was not so.

    more: what else tells kernels apart, such as the storage dtype where several meet.
    """
    graphs = graphs_of(verdict, source)
    if graphs is None:
        return None
    text = json.dumps([verdict.task_digest, verdict.tier, *more, graphs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def graphs_of(verdict: Verdict, source: str) -> dict[str, str] | None:
    """The digests of the graphs, by stage of a program; in the open tier, of what the source parses as, comments
    aside. None where the first stage did not pass."""
    read = next((s for s in verdict.stages if s.stage == "read" and s.outcome == "passed"), None)
    if read is None:
        return None
    stages = read.data.get("stages") or {"": read.data}
    found = {stage: data.get("digest") for stage, data in stages.items()}
    if None not in found.values():
        return found
    return None if verdict.tier == "closed" else {"": _parsed(source)}


def read_alone(task: Task, source: str, tier: Tier) -> Verdict:
    """The gate's first stage: "checked" where the candidate can be read. Executes nothing."""
    from ..gate.pipeline import candidate_digest
    from ..gate.read import read_stage
    from ..gate.stages import read_program
    from ..tasks import ProgramTask

    read = read_program(task, source, tier) if isinstance(task, ProgramTask) else read_stage(task, source, tier)
    return Verdict(
        task=task.name,
        task_digest=task.digest,
        candidate_digest=candidate_digest(task, source),
        tier=tier,
        status="checked" if read[0].outcome == "passed" else "refused",
        stages=(read[0],),
    )


def of_this(own: Verdict, kept: Verdict) -> Verdict:
    """The verdict of an equal candidate, with this one's own digest and stages without a GPU, as far as it went."""
    ahead = [s for s in own.stages if s.stage in CPU_STAGES]
    done = {s.stage for s in ahead}
    stages = (*ahead, *(s for s in kept.stages if s.stage not in done))
    return kept.model_copy(update={"candidate_digest": own.candidate_digest, "stages": stages})


def _parsed(source: str) -> str:
    try:
        text = ast.dump(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text = source
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
