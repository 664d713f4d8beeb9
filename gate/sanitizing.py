"""The sanitizer as the last stage of judgements that passed, over all their objects at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from . import sanitizer
from .pipeline import Evaluation, Progress, bare_kernels, session
from .verdict import StageResult


def sanitize(
    passed: Sequence[Evaluation], *, races: bool = False, limit_s: float = 600.0, progress: Progress | None = None
) -> list[Evaluation]:
    """The last stage, over many candidates at once: compute-sanitizer on the gated objects of those that passed.

    races: racecheck too, where it is quiet on the bare template. Returns all in their order, with the stage in their
    verdicts; one with a finding is refused.
    """
    say = partial(progress or (lambda stage, line: None), "sanitizer")
    found: dict[int, list[sanitizer.Item]] = {}
    for number, one in enumerate(passed):
        if one.verdict.status == "passed":
            name = f"{number}:{one.task.name}"
            found[number] = sanitizer.items(name, one.task, one.storage, one.objects, one.signatures, one.tier)
    listed = [item for items in found.values() for item in items]
    if races and listed:
        first = passed[min(found)]
        results = sanitizer.both(listed, _bare_items(first), limit_s=limit_s, say=say)
    else:
        results = sanitizer.sanitize(listed, limit_s=limit_s, say=say)
    return [
        _with_stage(one, sanitizer.together({i.name: results[i.name] for i in found[number]}))
        if number in found
        else one
        for number, one in enumerate(passed)
    ]


def _bare_items(of: Evaluation) -> list[sanitizer.Item]:
    (part, *_) = of.task.parts.values()
    made = [f.result() for f in [session().compiler.submit(s, g) for s, g in bare_kernels(part, of.storage)]]
    sizes = {"M": 136, "N": 264, "K": 136}
    return [
        sanitizer.Item(f"bare {c.schedule}", c.object, c.signature, (sizes,)) for c in made if c.object and c.signature
    ]


def _with_stage(one: Evaluation, stage: StageResult) -> Evaluation:
    kept = tuple(s for s in one.verdict.stages if s.stage != "sanitizer")
    status = "refused" if stage.outcome == "failed" else one.verdict.status
    verdict = one.verdict.model_copy(update={"stages": (*kept, stage), "status": status})
    if status == "refused":
        return replace(one, verdict=verdict, objects={}, signatures={})
    return replace(one, verdict=verdict)
