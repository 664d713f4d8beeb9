"""`codasmith attacks`: the corpus of exploits through the gate, caught or not."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..agent.commands_run import CpuOption, JsonOption
from ..agent.errors import ADMITTED, CANDIDATE_FAILED, UserMistake
from ..agent.speak import speaking


def attacks(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Attacks by name; all by default.")] = None,
    family: Annotated[
        list[str] | None, typer.Option("--family", help="Only those of a family, such as A or C3; give it once each.")
    ] = None,
    cpu_only: CpuOption = False,
    limit_s: Annotated[
        float | None, typer.Option("--limit-s", help="Begin no further attack after so many seconds.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Put every known exploit, and the controls, through the gate, and say where each is caught.

    Ends with 1 if one is not caught where it should be, or an honest control is refused.
    """
    with speaking(as_json) as voice:
        from ..gate import has_gpu
        from . import attack_runner

        try:
            chosen = attack_runner.attacks(names or [])
        except ValueError as error:
            raise UserMistake(str(error)) from None
        wanted = [f.upper() for f in family or []]
        if wanted:
            chosen = [a for a in chosen if any(a.family == f or a.family.rstrip("0123456789") == f for f in wanted)]
            if not chosen:
                raise UserMistake(f"no attack is of the family {', '.join(family or [])}; families are A1 to F5")

        def say(line: str) -> None:
            (voice.err if as_json else voice.out).print(line, markup=False, soft_wrap=True)

        gpu = has_gpu() and not cpu_only
        outcomes = attack_runner.run_all(chosen, cpu_only=not gpu, say=say, limit_s=limit_s)
        wrong = [o for o in outcomes if not o.as_expected]
        code = CANDIDATE_FAILED if wrong or len(outcomes) < len(chosen) else ADMITTED
        document: dict[str, Any] = {
            "command": "attacks",
            "exit_code": code,
            "gpu": gpu,
            "chosen": len(chosen),
            "as_expected": len(outcomes) - len(wrong),
            "attacks": [o.data() for o in outcomes],
        }
        voice.answer(document, lambda console: console.print(attack_runner.summary(outcomes, len(chosen))))
        raise typer.Exit(code)
