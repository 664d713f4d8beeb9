"""`codasmith mcp`: the gate for other agents, over stdio."""

from __future__ import annotations

from typing import Annotated

import typer

from .errors import UserMistake
from .speak import speaking


def add_to(app: typer.Typer) -> None:
    app.command("mcp")(mcp)


def mcp(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK.py]...", help="Task files of your own, offered beside the catalogue."),
    ] = None,
) -> None:
    """Serve tasks and the gate to other agents over the Model Context Protocol, on stdin and stdout."""
    with speaking():
        try:
            from .mcp_server import make_server
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] != "mcp":
                raise
            raise UserMistake(
                'codasmith mcp needs the MCP SDK; install it with: pip install "codasmith[mcp]"'
            ) from None
        make_server(tasks or []).run("stdio")
