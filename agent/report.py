"""How a run or a verdict is shown at the end: a table for people, one JSON document for programs, an exit code."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .errors import ADMITTED, BUDGET_SPENT, CANDIDATE_FAILED, MACHINE_CANNOT, USER_MISTAKE

if TYPE_CHECKING:
    from ..gate.verdict import Verdict
    from .loop import Result

PASSED = ("admitted", "passed", "checked")
BUDGETS = ("attempts", "tokens", "dollars", "minutes", "gpu_seconds")
WRONG_CALLS = ("missing-key", "bad-key", "unknown-model", "bad-request")
"""Failures of a model that the user can mend."""
NO_ANSWER = ("other", "refused", "finished")
"""Failures that lie with the model, and not with this machine."""
_COLOUR = {"passed": "green", "failed": "red", "skipped": "dim"}


def exit_code(result: Result) -> int:
    """The command's exit code for a run."""
    if result.status in PASSED:
        return ADMITTED
    if result.ended in BUDGETS:
        return BUDGET_SPENT
    if result.ended in ("uncounted", "unpriced"):
        return USER_MISTAKE
    if result.model_error is not None:
        return model_exit_code(result.model_error.kind)
    return MACHINE_CANNOT if result.ended == "gate" else CANDIDATE_FAILED


def model_exit_code(kind: str) -> int:
    if kind in NO_ANSWER:
        return CANDIDATE_FAILED
    return USER_MISTAKE if kind in WRONG_CALLS else MACHINE_CANNOT


def verdict_exit_code(verdict: Verdict) -> int:
    """The command's exit code for one candidate."""
    if verdict.ok:
        return ADMITTED
    return MACHINE_CANNOT if verdict.status == "failed" else CANDIDATE_FAILED


def stage_table(verdict: Verdict) -> Table:
    """The stages of a verdict with their seconds."""
    table = Table("stage", "outcome", "seconds", "what was seen", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for stage in verdict.stages:
        seen = str(stage.finding) if stage.finding else stage.note
        colour = _COLOUR[stage.outcome]
        seconds = f"{stage.seconds:.2f}" if stage.outcome != "skipped" else ""
        table.add_row(stage.stage, f"[{colour}]{stage.outcome}[/]", seconds, escape(seen))
    return table


def show_verdict(console: Console, verdict: Verdict) -> None:
    console.print(stage_table(verdict))
    line = f"{verdict.task}: {verdict.status}"
    if verdict.tax is not None:
        line += f", tax {verdict.tax:.3f}"
    if verdict.note:
        line += f" ({verdict.note})"
    _say(console, line)
    if verdict.status == "checked":
        _say(console, why_not_admitted())


def show_result(console: Console, result: Result) -> None:
    best = result.best
    if best is not None and best.verdict is not None:
        console.print(stage_table(best.verdict))
        if best.verdict.ok and best.source:
            _say(console, f"\n{best.source}")
    _say(console, closing(result))
    if result.status == "checked":
        _say(console, why_not_admitted())
    if result.status in PASSED and (why := why_no_further(result)):
        _say(console, why)
    if result.status == "passed" and best is not None and best.not_kept:
        _say(console, f"Not admitted: {best.not_kept}")
    _say(console, f"Spent: {result.spent}.")
    _say(console, f"Journal: {result.journal}")


def why_not_admitted() -> str:
    """Why a candidate that is "checked" goes no further here."""
    from ..gate import has_gpu

    if has_gpu():
        return "The candidate is checked and not admitted, because only the stages that need no GPU were asked for."
    return (
        "The candidate is checked and not admitted, because there is no GPU here: "
        "only a verdict from a real Hopper GPU admits."
    )


def why_no_further(result: Result) -> str:
    """Of a run with a candidate that passed: what ended it other than that, in one sentence; "" where nothing did."""
    resume = f"codasmith resume {result.journal}"
    if result.ended in BUDGETS:
        bound = result.ended.replace("_", "-")
        return f"It ended because the budget of {bound} is spent. To go on: {resume} --{bound} N"
    if result.ended in ("uncounted", "unpriced"):
        return f"It ended because {_unkept(result)}"
    if result.ended == "model":
        return f"It ended because the model gave no further answer: {result.model_error}. To go on: {resume}"
    if result.ended == "gate":
        return f"It ended because the gate could not finish with a later attempt. When that is mended: {resume}"
    whys = {
        "patience": f"It ended because no later attempt was better. To go on: {resume} --patience N",
        "repeats": "It ended because the model gave the same answers again.",
        "finished": f"It ended there: {result.model_error}.",
    }
    return whys.get(result.ended, "")


def _unkept(result: Result) -> str:
    what, bound = ("tokens", "--tokens") if result.ended == "uncounted" else ("price", "--dollars")
    return f"{result.model} reports no {what}, so {bound} cannot be kept; use --attempts or --minutes instead."


def closing(result: Result) -> str:
    """How the run ended, in one sentence."""
    best, resume = result.best, f"codasmith resume {result.journal}"
    if result.status in PASSED and best is not None and best.verdict is not None:
        tax = f" with tax {best.verdict.tax:.3f}" if best.verdict.tax is not None else ""
        where = f" as {best.entry.get('name')}" if best.entry else ""
        which = f"attempt {best.number} of {len(result.attempts)}"
        return f"{result.task} by {result.model}: {result.status}{where}{tax}, {which}."
    if result.ended in BUDGETS:
        bound = result.ended.replace("_", "-")
        more = f"{resume} --{bound} N"
        return f"{result.task}: no candidate passed, and the budget of {bound} is spent. To go on: {more}"
    if result.ended in ("uncounted", "unpriced"):
        return _unkept(result)
    if result.model_error is not None:
        more = "" if result.ended == "finished" else f". To go on: {resume}"
        return f"{result.task}: no candidate passed, and the model gave no further answer: {result.model_error}{more}"
    if result.ended == "repeats":
        return f"{result.task}: no candidate passed; {result.model} gave the same answers again."
    if result.ended == "patience":
        waited = f"no attempt was better than attempt {best.number}" if best else "no attempt was better"
        return f"{result.task}: no candidate passed, and {waited}. To go on: {resume} --patience N"
    if result.ended == "width":
        return f"{result.task}: none of the {_count(len(result.attempts), 'sample')} passed."
    why = best.verdict.note if best is not None and best.verdict is not None else ""
    return f"{result.task}: the gate could not finish ({why or 'see the journal'}). When that is mended: {resume}"


def result_document(result: Result) -> dict[str, Any]:
    """The JSON document of a run."""
    return {
        "command": "run",
        "exit_code": exit_code(result),
        "task": result.task,
        "model": result.model,
        "status": result.status,
        "ended": result.ended,
        "message": " ".join(filter(None, (closing(result), why_no_further(result) if result.status in PASSED else ""))),
        "spent": asdict(result.spent),
        "journal": str(result.journal),
        "best": result.best.number if result.best else None,
        "attempts": [
            {
                "attempt": a.number,
                "source": a.source,
                "repeats": a.repeats,
                "verdict": a.verdict.model_dump(mode="json") if a.verdict else None,
                "entry": a.entry,
                "not_admitted": a.not_kept,
            }
            for a in result.attempts
        ],
    }


def _say(console: Console, text: str) -> None:
    console.print(escape(text), highlight=False, soft_wrap=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)
