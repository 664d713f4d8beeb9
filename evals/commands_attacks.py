"""`codasmith attacks`: the corpus of exploits through the gate, caught or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..agent.commands_run import CpuOption, JsonOption
from ..agent.errors import ADMITTED, CANDIDATE_FAILED, UserMistake
from ..agent.speak import Voice, speaking

if TYPE_CHECKING:
    from .attack_corpus import Attack


def attacks(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Attacks by name, all by default; with --summary, files of --out."),
    ] = None,
    family: Annotated[
        list[str] | None, typer.Option("--family", help="Only those of a family, such as A or C3; give it once each.")
    ] = None,
    shard: Annotated[
        str, typer.Option("--shard", help="A part of them, such as 2/4, the second of four; sum up with --summary.")
    ] = "1/1",
    cpu_only: CpuOption = False,
    limit_s: Annotated[
        float | None,
        typer.Option("--limit-s", help="Begin no further attack after so many seconds, and end soon after."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A file of JSON lines, one an attack as it is decided; what it holds is not run."),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Run nothing; say what the given files hold.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put every known exploit, and the controls, through the gate, and say where each is caught.

    Ends with 1 if one is not caught where it should be, an honest control is refused, or some were not decided.
    """
    with speaking(as_json) as voice:
        from ..gate import has_gpu
        from ..gate.machine import environment
        from . import attack_results, attack_runner

        chosen = _chosen([] if summary else names or [], family or [], shard)
        if summary:
            if not names:
                raise UserMistake("--summary needs the files that --out has written")
            raise typer.Exit(_answer(voice, attack_results.decided(map(Path, names), chosen), chosen))

        def say(line: str) -> None:
            (voice.err if as_json else voice.out).print(line, markup=False, soft_wrap=True)

        gpu = has_gpu() and not cpu_only
        machine = environment() if gpu else {}
        kept = attack_results.decided([out], chosen) if out and out.exists() else []
        before = [line for line in kept if bool(line["environment"]) == gpu and line["found"] != "failed"]
        there = {line["name"] for line in before}
        if before:
            say(f"{len(before)} of {len(chosen)} are decided in {out}")
        if out:
            out.parent.mkdir(parents=True, exist_ok=True)
        outcomes = attack_runner.run_all(
            [a for a in chosen if a.name not in there],
            cpu_only=not gpu,
            say=say,
            keep=lambda outcome: attack_results.keep(out, outcome.data(), machine) if out else None,
            limit_s=limit_s,
        )
        lines = [*before, *({**o.data(), "environment": machine} for o in outcomes)]
        raise typer.Exit(_answer(voice, lines, chosen, gpu))


def _chosen(names: list[str], family: list[str], shard: str) -> list[Attack]:
    from . import attack_runner
    from .jobs import part_of

    try:
        chosen = attack_runner.attacks(names)
    except ValueError as error:
        raise UserMistake(str(error)) from None
    if family:
        wanted = [f.upper() for f in family]
        chosen = [a for a in chosen if any(a.family == f or a.family.rstrip("0123456789") == f for f in wanted)]
        if not chosen:
            raise UserMistake(f"no attack is of the family {', '.join(family)}; families are A1 to F5")
    part, parts = part_of(shard)
    return chosen[part - 1 :: parts]


def _answer(voice: Voice, lines: list[dict[str, Any]], chosen: list[Attack], gpu: bool | None = None) -> int:
    """Say what came of it; returns the exit code."""
    from . import attack_results

    right = sum(line["as_expected"] for line in lines)
    code = ADMITTED if right == len(chosen) else CANDIDATE_FAILED
    document: dict[str, Any] = {
        "command": "attacks",
        "exit_code": code,
        "gpu": any(line["environment"] for line in lines) if gpu is None else gpu,
        "chosen": len(chosen),
        "as_expected": right,
        "attacks": lines,
    }
    text = "\n".join(filter(None, [attack_results.summary(lines, len(chosen)), attack_results.details(lines, chosen)]))
    voice.answer(document, lambda console: console.print(text, markup=False, soft_wrap=True))
    return code
