"""`codasmith replay` and `codasmith journal`: a campaign judged again, and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .commands_run import CpuOption, JsonOption
from .errors import ADMITTED, CANDIDATE_FAILED, cannot_write
from .speak import speaking

if TYPE_CHECKING:
    from .campaign_view import Campaign
    from .replay import Replay

JournalArgument = Annotated[Path, typer.Argument(metavar="JOURNAL", help="A journal that `codasmith run` wrote.")]

journal = typer.Typer(help="What a journal tells: its attempts, findings, stages and costs.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.command("replay")(replay)
    app.add_typer(journal, name="journal")


def replay(journal: JournalArgument, cpu_only: CpuOption = False, as_json: JsonOption = False) -> None:
    """Judge every answer of a campaign again, with no model and no network. Exit code 1 where a verdict differs."""
    with speaking(as_json) as voice:
        from . import replay as replaying

        found = replaying.replay(journal, cpu_only=cpu_only, progress=voice.progress)
        code = ADMITTED if found.equal else CANDIDATE_FAILED
        voice.answer(_replay_document(found, code), lambda console: _show_replay(console, found))
        raise typer.Exit(code)


def _replay_document(found: Replay, code: int) -> dict[str, Any]:
    return {
        "command": "replay",
        "exit_code": code,
        "task": found.task,
        "journal": str(found.journal),
        "equal": found.equal,
        "compared": found.compared,
        "problems": list(found.problems),
        "attempts": [
            {
                "attempt": a.number,
                "then": a.then.status if a.then else None,
                "now": a.now.status,
                "differences": list(a.differences),
                "not_compared": list(a.uncompared),
                "same_question": a.same_question,
                "verdict": a.now.model_dump(mode="json"),
            }
            for a in found.attempts
        ],
    }


def _show_replay(console: Console, found: Replay) -> None:
    for problem in found.problems:
        console.print(escape(problem), style="yellow", soft_wrap=True)
    table = Table("attempt", "then", "now", "verdicts", box=None, pad_edge=False)
    for a in found.attempts:
        same = "equal" if a.then else "nothing to compare"
        words = "; ".join(a.differences) or same
        table.add_row(str(a.number), a.then.status if a.then else "-", a.now.status, escape(words))
    console.print(table)
    other = [str(a.number) for a in found.attempts if not a.same_question]
    if other:
        which = f"attempt{'s' * (len(other) > 1)} {', '.join(other)}"
        console.print(f"The question of {which} would be worded otherwise today; its answer was taken as it is.")
    stages = dict.fromkeys(stage for a in found.attempts for stage in a.uncompared)
    if stages:
        say = f"Not compared: {', '.join(stages)}; they ran only then or only now, as they need a Hopper GPU."
        console.print(say, soft_wrap=True)
    count = sum(bool(a.differences) for a in found.attempts)
    say = "all verdicts are equal" if not count else f"{count} verdict{'s' * (count > 1)} differ{'s' * (count == 1)}"
    console.print(f"{found.task}: {found.compared} of {len(found.attempts)} attempts compared; {say}.", soft_wrap=True)


@journal.command("show")
def show(journal: JournalArgument, as_json: JsonOption = False) -> None:
    """One campaign: how it was begun, its attempts with stages, findings and costs, and how it ended."""
    with speaking(as_json) as voice:
        from .campaign_view import view

        campaign = view(journal)
        document = {"command": "journal show", "exit_code": 0, **campaign.document()}
        voice.answer(document, lambda console: _show(console, campaign))


@journal.command("html")
def html(
    journal: JournalArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")],
    as_json: JsonOption = False,
) -> None:
    """One self-contained page: timeline, plot, findings, and each attempt's source with what it changed."""
    with speaking(as_json) as voice:
        from .campaign_view import view
        from .journal_page import render_page

        text = render_page(view(journal))
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise cannot_write(f"the page {output}", error, "choose another place") from None
        document = {"command": "journal html", "exit_code": 0, "page": str(output), "bytes": len(text.encode())}
        voice.answer(document, lambda console: console.print(f"wrote {escape(str(output))}", soft_wrap=True))


def _show(console: Console, campaign: Campaign) -> None:
    for problem in campaign.problems:
        console.print(escape(problem), style="yellow", soft_wrap=True)
    for name, value in campaign.facts:
        console.print(f"{name:<9} {escape(value)}", soft_wrap=True, highlight=False)
    console.print()
    table = Table("attempt", "shown", "status", "stages passed", "tax", "tokens", "dollars", "seconds", box=None)
    for column in table.columns[4:]:
        column.justify = "right"
    for a in campaign.attempts:
        table.add_row(
            str(a.number),
            ", ".join(map(str, a.shown)) or "-",
            escape(a.status),
            ", ".join(a.passed) or "-",
            "-" if a.tax is None else f"{a.tax:.3f}",
            a.tokens_text,
            a.dollars_text,
            "-" if a.seconds is None else f"{a.seconds:.1f}",
        )
    console.print(table)
    for a in campaign.attempts:
        if a.finding:
            console.print(f"\nattempt {a.number}, {a.stage}: {escape(a.finding)}", soft_wrap=True, highlight=False)
    best = campaign.best
    if best is not None and best.source:
        console.print(f"\nThe best is attempt {best.number}:\n", highlight=False)
        console.print(escape(best.source.rstrip()), soft_wrap=True, highlight=False)
    console.print(f"\n{escape(campaign.ending)}", soft_wrap=True, highlight=False)
