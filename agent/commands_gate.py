"""`codasmith check`, `verify` and `doctor`: one candidate through the gate, and what this machine can do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from .commands_run import JsonOption, StorageName, StorageOption, TaskArgument, TierName, TierOption
from .errors import MachineCannot, UserMistake
from .speak import speaking

CandidateArgument = Annotated[Path, typer.Argument(metavar="CANDIDATE.py", help="The epilogue: one Python file.")]
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def add_to(app: typer.Typer) -> None:
    app.command("check")(check)
    app.command("verify")(verify)
    app.command("doctor")(doctor)


def check(
    task: TaskArgument,
    candidate: CandidateArgument,
    tier: TierOption = TierName.closed,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put one file through the stages that need no GPU: read, interpret, compile."""
    _judge("check", task, candidate, tier, storage, as_json, cpu_only=True)


def verify(
    task: TaskArgument,
    candidate: CandidateArgument,
    tier: TierOption = TierName.closed,
    storage: StorageOption = None,
    admit: Annotated[
        bool, typer.Option("--admit", help="Keep the kernel in your store, as hand-written, if it passes.")
    ] = False,
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize/--no-sanitize", help="compute-sanitizer over what passed; takes some 20 seconds."),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Put one file through the whole gate; needs a Hopper GPU."""
    _judge("verify", task, candidate, tier, storage, as_json, cpu_only=False, admit=admit, sanitize=sanitize)


def _judge(
    command: str,
    task: str,
    candidate: Path,
    tier: TierName,
    storage: StorageName | None,
    as_json: bool,
    *,
    cpu_only: bool,
    admit: bool = False,
    sanitize: bool = False,
) -> None:
    with speaking(as_json) as voice:
        source = _read(candidate)
        from .. import gate
        from ..tasks import load_task
        from . import report

        problem = load_task(task)
        stored = problem.check_storage(storage and storage.value)
        if not cpu_only and not gate.has_gpu():
            raise MachineCannot(
                "there is no Hopper GPU here, so the candidate cannot be verified; "
                f"the stages that need none run with: codasmith check {task} {candidate}"
            )
        with voice.progress.moving("the gate reads the candidate"):
            evaluation = gate.evaluate(
                problem,
                source,
                tier=tier.value,
                storage=stored,
                cpu_only=cpu_only,
                progress=voice.progress.stage,
            )
            if sanitize and evaluation.verdict.status == "passed":
                (evaluation,) = gate.sanitize([evaluation], progress=voice.progress.stage)
        verdict = evaluation.verdict
        code = report.verdict_exit_code(verdict)
        if admit and verdict.status == "passed":
            from .. import verified_kernels

            entry = verified_kernels.admit(evaluation, problem, author="hand-written")
            verdict = verdict.model_copy(update={"status": "admitted", "note": f"kept as {entry.name}"})
        document = {"command": command, "exit_code": code, "verdict": verdict.model_dump(mode="json")}
        voice.answer(document, lambda console: report.show_verdict(console, verdict))
        raise typer.Exit(code)


def _read(candidate: Path) -> str:
    if candidate.exists() and not candidate.is_file():
        raise UserMistake(f"the candidate {candidate} is not a file; give a Python file")
    try:
        return candidate.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserMistake(f"{candidate} is not UTF-8 text; give a Python file") from None
    except OSError as error:
        raise UserMistake(f"the candidate {candidate} cannot be read ({error.strerror}); check the path") from None


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine can do: GPU, versions, compiler, sandbox, and which keys are set (never their values)."""
    with speaking(as_json) as voice:
        from .. import gate
        from ..gate import contain, nvml, sanitizer
        from ..templates.sandbox import in_force, lacking

        held, runner = in_force(), contain.in_force()
        machine = gate.describe_machine()
        keys = {name: bool(os.environ.get(name, "").strip()) for name in KEYS}
        document = {
            "command": "doctor",
            "exit_code": 0,
            "gpu_usable": gate.has_gpu(),
            "machine": machine,
            "keys": keys,
            "sandbox": held,
            "sandbox_lacks": lacking(held),
            "runner": runner,
            "runner_lacks": contain.lacking(runner),
            "gpu_state": nvml.state(),
            "sanitizer": sanitizer.tool() or None,
        }
        voice.answer(document, lambda console: _show_doctor(console, document))


def _show_doctor(console: Console, document: dict[str, Any]) -> None:
    rows = dict(document["machine"])
    rows.update({name: "set" if there else "not set" for name, there in document["keys"].items()})
    held = [name for name, value in document["sandbox"].items() if value is True]
    rows["sandbox"] = f"in force for {', '.join(held)}" if held else "not in force"
    contained = [name for name, value in document["runner"].items() if value is True]
    rows["runner"] = f"contained in {', '.join(contained)}" if contained else "not contained"
    rows["clocks"] = _clocks(document["gpu_state"])
    rows["sanitizer"] = document["sanitizer"] or "none: compute-sanitizer comes with the CUDA toolkit"
    width = max(map(len, rows))
    for name, value in rows.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        console.print(f"{name:<{width}}  {escape(str(shown if shown not in (None, '') else 'none'))}", soft_wrap=True)
    if document["gpu_usable"]:
        can = "Here candidates can be verified and admitted, and verified kernels run."
    else:
        can = "Here candidates can be read, interpreted and compiled for sm_90a; admitting them takes a Hopper GPU."
    console.print(can, soft_wrap=True)
    for lack in document["sandbox_lacks"]:
        console.print(f"[yellow]The compile sandbox lacks:[/] {escape(lack)}", soft_wrap=True)
    for lack in document["runner_lacks"]:
        console.print(f"[yellow]The runner lacks:[/] {escape(lack)}", soft_wrap=True)


def _clocks(state: dict[str, Any]) -> str:
    if "missing" in state:
        return state["missing"]
    text = f"SM {state['sm_clock']} MHz, {state['power']} of {state['power_limit']} W, {state['temperature']} C"
    return text + (f", held back by {', '.join(state['held_back_by'])}" if state["held_back_by"] else "")
