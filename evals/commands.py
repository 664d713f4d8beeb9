"""`codasmith eval`, `evals` and `attacks`: score models, generate held-out tasks, merge, publish, attack the gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..agent.commands_run import (
    Api,
    BaseUrl,
    CpuOption,
    Effort,
    JsonOption,
    KeyEnv,
    StorageName,
    Thinking,
    TierName,
    Timeout,
    model_options,
)
from ..agent.errors import MACHINE_CANNOT, UserMistake
from ..agent.speak import Voice, speaking
from . import commands_attacks

if TYPE_CHECKING:
    from .results import Results
    from .run_folder import RunFolder
    from .sample import Unfinished

SetOption = Annotated[
    str, typer.Option("--set", help="An eval set by name, or a folder that `codasmith evals generate` wrote.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def add_to(app: typer.Typer) -> None:
    app.command("eval")(evaluate)
    app.command("attacks")(commands_attacks.attacks)
    group = typer.Typer(help="Eval sets and runs: list, generate, report, merge, publish.", no_args_is_help=True)
    group.command("list")(show_set)
    group.command("generate")(generate)
    group.command("report")(report)
    group.command("merge")(merge)
    group.command("publish")(publish)
    app.add_typer(group, name="evals")


def evaluate(
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model, as for `codasmith run`; give it once each.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="Runs of the agent on each task.")] = 4,
    budget: Annotated[
        int, typer.Option("--budget", "--attempts", help="Questions to the model in a sample, at most.")
    ] = 20,
    tokens: Annotated[int | None, typer.Option("--tokens", help="Tokens of a sample, at most.")] = None,
    dollars: Annotated[float | None, typer.Option("--dollars", help="Price of a sample, at most.")] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Wall time of a sample, at most; waiting for the gate counts.")
    ] = None,
    target_tax: Annotated[
        float, typer.Option("--target-tax", help="A sample goes on for a faster kernel until its tax is this.")
    ] = 1.02,
    eval_set: SetOption = "coda-epilogue-v1",
    task: Annotated[list[str] | None, typer.Option("--task", help="Only these tasks of the set.")] = None,
    tier: Annotated[
        list[TierName] | None, typer.Option("--tier", help="closed (the default), cutedsl, or both.")
    ] = None,
    storage: Annotated[
        StorageName, typer.Option("--storage", help="Dtype of the tensors that the tasks leave open, for all of them.")
    ] = StorageName.bf16,
    shapes: Annotated[
        int | None, typer.Option("--shapes", help="Time each task at so many of its shapes; all by default.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Samples at a time; the GPU takes one at a time.")] = 4,
    limit_s: Annotated[
        float | None, typer.Option("--limit-s", help="Ask and judge nothing more after so many seconds; go on later.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run's folder; runs/eval-SET by default.")] = None,
    shard: Annotated[
        str, typer.Option("--shard", help="A part of the samples, such as 2/4; join with evals merge.")
    ] = "1/1",
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    api: Api = None,
    effort: Effort = None,
    thinking: Thinking = None,
    timeout: Timeout = None,
    cpu_only: CpuOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score models on an eval set. The same command goes on with a run that was stopped."""
    with speaking(as_json) as voice:
        from . import runs
        from .evalset import load_set
        from .results import write_results
        from .run_folder import RunFolder

        loaded = load_set(eval_set)
        spec = runs.make_spec(
            model or [],
            loaded,
            eval_set,
            samples=samples,
            attempts=budget,
            cpu_only=cpu_only,
            target_tax=target_tax,
            tokens=tokens,
            dollars=dollars,
            minutes=minutes,
            tasks=tuple(task) if task else None,
            tiers=tuple(t.value for t in tier) if tier else ("closed",),
            storage=storage.value,
            shapes=shapes,
            shard=shard,
            model_options=model_options(base_url, key_env, api, effort, thinking, timeout),
        )
        folder = RunFolder(out or runs.default_folder(loaded))
        unfinished = runs.run(spec, loaded, folder, workers=workers, limit_s=limit_s, say=voice.progress.say)
        _finish(voice, "eval", write_results(folder, loaded), folder, unfinished)


def report(run: RunArgument, as_json: JsonOption = False) -> None:
    """Score what a run has so far, and write its results.json and report.html again."""
    with speaking(as_json) as voice:
        from .results import write_results
        from .run_folder import RunFolder

        folder = RunFolder(run)
        _finish(voice, "evals report", write_results(folder), folder, [])


def merge(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of the parts.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder for the whole.")],
    as_json: JsonOption = False,
) -> None:
    """Join parts of one run that were made on several machines."""
    with speaking(as_json) as voice:
        from . import run_folder
        from .results import write_results

        folder = run_folder.merge(run, out)
        _finish(voice, "evals merge", write_results(folder), folder, [])


def publish(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folder of a run, or those of its parts.")],
    out: Annotated[Path, typer.Option("--out", help="Where to publish, such as docs/results/NAME.")],
    as_json: JsonOption = False,
) -> None:
    """Join a run's parts and keep what is worth publishing: scores, rows, page, and the journals in one archive."""
    with speaking(as_json) as voice:
        from . import publish as publishing
        from .run_folder import RunFolder

        results = publishing.publish(run, out)
        _finish(voice, "evals publish", results, RunFolder(out), [])


def show_set(eval_set: SetOption = "coda-epilogue-v1", as_json: JsonOption = False) -> None:
    """List the tasks of an eval set."""
    with speaking(as_json) as voice:
        from rich.table import Table

        from .evalset import load_set

        spec = load_set(eval_set).spec
        table = Table("task", "level", "family", "published solution", box=None, pad_edge=False)
        for entry in spec.tasks:
            known = f"{entry.known.where} ({entry.known.how})" if entry.known else ""
            table.add_row(entry.name, str(entry.level), entry.family, known)
        document = {"command": "evals list", "exit_code": 0, "digest": spec.digest, "set": spec.model_dump(mode="json")}

        def show(console: Any) -> None:
            console.print(table)
            console.print(f"{spec.name}, version {spec.version}, {spec.split}: {len(spec.tasks)} tasks.")

        voice.answer(document, show)


def generate(
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same tasks.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder for the task files.")],
    n: Annotated[int, typer.Option("--n", help="How many tasks.")] = 100,
    difficulty: Annotated[int | None, typer.Option("--difficulty", help="1 to 4; the four in turn by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write held-out tasks: random compositions of primitives, as ordinary task files."""
    with speaking(as_json) as voice:
        from .generate import generate as write

        with voice.progress.moving(f"composing {n} tasks"):
            spec = write(seed, n, difficulty, out, tell=lambda line: voice.progress.stage("compose", line))
        document = {
            "command": "evals generate",
            "exit_code": 0,
            "folder": str(out),
            "set": spec.model_dump(mode="json"),
        }
        voice.answer(document, lambda console: console.print(f"{len(spec.tasks)} tasks are in {out}; use --set {out}"))


def _finish(voice: Voice, command: str, results: Results, folder: RunFolder, unfinished: list[Unfinished]) -> None:
    from .results import PAGE, RESULTS

    code = MACHINE_CANNOT if unfinished else 0
    if not results.scores:
        reason = f" ({unfinished[0].reason})" if unfinished else ""
        raise UserMistake(
            f"nothing of the run in {folder.path} is finished for every contestant yet{reason}; go on with the same "
            "command"
        )
    document = {
        "command": command,
        "exit_code": code,
        "results": results.model_dump(mode="json"),
        "unfinished": [{"sample": str(u.job), "reason": u.reason} for u in unfinished],
    }

    def show(console: Any) -> None:
        from . import table

        table.show(console, results)
        if unfinished:
            console.print(
                f"{len(unfinished)} samples are not finished and count for nothing; the same command tries them again. "
                f"The first: {unfinished[0].job}: {unfinished[0].reason}",
                markup=False,
                soft_wrap=True,
            )
        console.print(f"Written: {folder.path / RESULTS}, {folder.path / PAGE}", markup=False, soft_wrap=True)

    voice.answer(document, show)
    raise typer.Exit(code)
