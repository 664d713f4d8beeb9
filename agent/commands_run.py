"""`codasmith run` and `codasmith resume`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .speak import Voice, speaking

if TYPE_CHECKING:
    from .loop import Result


class TierName(StrEnum):
    """Which language the candidate is written in."""

    closed = "closed"
    cutedsl = "cutedsl"


class StrategyName(StrEnum):
    """Which earlier attempts the next question builds on."""

    refine = "refine"
    best_of_n = "best-of-n"
    best_first = "best-first"


class ApiName(StrEnum):
    """Which of OpenAI's two APIs a server speaks."""

    responses = "responses"
    chat = "chat"


class StorageName(StrEnum):
    """The dtype of the tensors whose dtype a task leaves open."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp8 = "fp8"


TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="A task of the catalogue, or a file: my_task.py, my_tasks.py:one_of_them.")
]
TierOption = Annotated[TierName, typer.Option("--tier", help="closed: read, never run. cutedsl: a module of its own.")]
StorageOption = Annotated[
    StorageName | None,
    typer.Option(
        "--storage",
        help="Dtype of the tensors that the task leaves open; fp8: of the product's operands. By default fp8 for "
        "NAME_fp8, and bf16 for others.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
CpuOption = Annotated[bool, typer.Option("--cpu-only", help="Only the stages that need no GPU; nothing is admitted.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Address of a compatible server.")]
KeyEnv = Annotated[
    str | None, typer.Option("--key-env", help="Name of the variable that holds the key, if not the usual one.")
]
Api = Annotated[
    ApiName | None,
    typer.Option("--api", help="For openai: models; by default responses at OpenAI itself, chat at --base-url."),
]
Effort = Annotated[str | None, typer.Option("--effort", help="How hard the model should think, where it can be told.")]
Thinking = Annotated[
    str | None,
    typer.Option("--thinking", help='For anthropic: models; tokens to think with, from 1024, or "adaptive".'),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds for one answer, at most.")]
Attempts = Annotated[int | None, typer.Option("--attempts", help="Questions to the model, at most.")]
Tokens = Annotated[int | None, typer.Option("--tokens", help="Tokens in and out together, at most.")]
Dollars = Annotated[float | None, typer.Option("--dollars", help="Price of all answers, at most.")]
Patience = Annotated[int | None, typer.Option("--patience", help="Stop after so many attempts without a better one.")]
GpuSeconds = Annotated[float | None, typer.Option("--gpu-seconds", help="Time in the gate's GPU stages, at most.")]
Minutes = Annotated[float | None, typer.Option("--minutes", help="Wall time, at most; checked between steps.")]


def add_to(app: typer.Typer) -> None:
    app.command("run")(run)
    app.command("resume")(resume)


def run(
    task: TaskArgument,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="anthropic:NAME, openai:NAME, command:PROGRAM, replay:JOURNAL, builtin:tracer or builtin:search.",
        ),
    ] = "builtin:tracer",
    attempts: Attempts = 8,
    tokens: Tokens = None,
    dollars: Dollars = None,
    minutes: Minutes = None,
    gpu_seconds: GpuSeconds = None,
    target_tax: Annotated[
        float | None,
        typer.Option(
            "--target-tax", help="Go on for a faster kernel until the tax is this; else the first that passes ends it."
        ),
    ] = None,
    target_speedup: Annotated[
        float | None,
        typer.Option("--target-speedup", help="The same for the speed-up over the faster of eager and torch.compile."),
    ] = None,
    strategy: Annotated[
        StrategyName,
        typer.Option(
            "--strategy",
            help="refine: the best and the newest attempt are shown. best-of-n: independent samples. "
            "best-first: the fastest candidates are expanded in turn.",
        ),
    ] = StrategyName.refine,
    width: Annotated[
        int | None,
        typer.Option("--width", help="Samples of best-of-n; candidates that best-first expands (3 by default)."),
    ] = None,
    patience: Patience = None,
    tier: TierOption = TierName.closed,
    storage: StorageOption = None,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    api: Api = None,
    effort: Effort = None,
    thinking: Thinking = None,
    timeout: Timeout = None,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Where to write the events; a new file in runs/ by default.")
    ] = None,
    cpu_only: CpuOption = False,
    counters: Annotated[
        bool, typer.Option("--counters", help="Tell a few of ncu's counters of each kernel that passes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the agent on a task until a kernel is admitted or the budget is spent."""
    with speaking(as_json) as voice:
        from . import campaign
        from .budget import Budget

        result = campaign.run(
            task,
            model,
            budget=Budget(attempts, tokens, dollars, minutes, gpu_seconds),
            tier=tier.value,
            storage=storage and storage.value,
            target_tax=target_tax,
            target_speedup=target_speedup,
            strategy=strategy.value,
            width=width,
            patience=patience,
            journal=journal,
            cpu_only=cpu_only,
            counters=counters,
            model_options=model_options(base_url, key_env, api, effort, thinking, timeout),
            progress=voice.progress,
        )
        _finish(voice, result)


def resume(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal of a run that was stopped.")],
    attempts: Attempts = None,
    tokens: Tokens = None,
    dollars: Dollars = None,
    minutes: Minutes = None,
    gpu_seconds: GpuSeconds = None,
    patience: Patience = None,
    cpu_only: Annotated[
        bool | None, typer.Option("--cpu-only/--gpu", help="Change where the run goes on; as it last did by default.")
    ] = None,
    base_url: BaseUrl = None,
    timeout: Timeout = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run, without asking again for what was answered. What is given here replaces what it had."""
    with speaking(as_json) as voice:
        from . import campaign

        result = campaign.resume(
            journal,
            cpu_only=cpu_only,
            patience=patience,
            model_options=model_options(base_url, None, None, None, None, timeout),
            progress=voice.progress,
            attempts=attempts,
            tokens=tokens,
            dollars=dollars,
            minutes=minutes,
            gpu_seconds=gpu_seconds,
        )
        _finish(voice, result)


def model_options(
    base_url: str | None,
    key_env: str | None,
    api: ApiName | None,
    effort: str | None,
    thinking: str | None,
    timeout: float | None,
) -> dict[str, Any]:
    """The options given for models, as `make_model` takes them."""
    options = {
        "base_url": base_url,
        "key_env": key_env,
        "api": api.value if api else None,
        "effort": effort,
        "thinking": int(thinking) if thinking is not None and thinking.isdecimal() else thinking,
        "timeout": timeout,
    }
    return {name: value for name, value in options.items() if value is not None}


def _finish(voice: Voice, result: Result) -> None:
    from . import report

    voice.answer(report.result_document(result), lambda console: report.show_result(console, result))
    raise typer.Exit(report.exit_code(result))
