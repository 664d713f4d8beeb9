"""The command line: `codasmith`.

Each command lives in a commands_*.py beside this file and imports what it needs when it runs, so that
`codasmith --help` starts without torch.
"""

from __future__ import annotations

import importlib
import sys

import typer

from . import commands_catalogue, commands_gate, commands_journal, commands_mcp, commands_run
from .speak import Commands

EXIT_CODES = (
    "Exit codes: 0 admitted or passed (or checked, where there is no GPU); 1 the candidate failed, or the model gave "
    "none; 2 a mistake in what was asked; 3 this machine cannot do it; 4 the budget is spent; 130 stopped by Ctrl-C."
)

app = typer.Typer(
    name="codasmith",
    cls=Commands,
    help="Let a language model write epilogues for a Hopper GEMM, and trust only those that pass the gate.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands_run.add_to(app)
commands_gate.add_to(app)
commands_catalogue.add_to(app)
commands_journal.add_to(app)
commands_mcp.add_to(app)
try:  # the evals depend on the agent, never the other way round: where they are installed, their commands join
    _evals = importlib.import_module("codasmith.evals.commands")
except ModuleNotFoundError as missing:
    if not (missing.name or "").startswith("codasmith.evals"):
        raise
else:
    _evals.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"codasmith {version('codasmith')}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a letter that the locale lacks ends nothing
    app()
