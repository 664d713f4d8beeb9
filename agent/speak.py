"""What every command shares: answers on stdout, everything else on stderr, each failure one sentence and its code."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
import typer.core
from rich.console import Console
from rich.markup import escape

from .errors import FULL, INTERRUPTED, MACHINE_CANNOT, USER_MISTAKE, AgentError, cannot_write
from .progress import Progress

_NOT_THERE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG)
"""Where the user named no place for a file."""
PLAIN_WIDTH = 160  # columns of a table that goes to a file or a pipe


class Voice:
    """Where a command writes. With as_json, stdout carries one JSON document and nothing else."""

    def __init__(self, as_json: bool):
        self.as_json = as_json
        # Where nobody looks, nothing is folded or cut to a guessed width.
        self.out = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
        self.err = Console(stderr=True)
        self.progress = Progress(self.err)

    def answer(self, document: dict[str, Any], show: Callable[[Console], None]) -> None:
        """The command's answer: the document, or what `show` prints for a person."""
        try:
            if self.as_json:
                print(json.dumps(document, indent=1, default=str))
            else:
                show(self.out)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _silence_stdout()
            raise cannot_write("the standard output", error, "send it to another place") from None

    def fail(self, message: str, code: int) -> None:
        if self.as_json:
            print(_failure(message, code))
        self.err.print(f"[red]codasmith:[/] {escape(message)}", highlight=False, soft_wrap=True)
        raise typer.Exit(code)


@contextmanager
def speaking(as_json: bool = False) -> Iterator[Voice]:
    """Run a command's body; what it raises for the user's eyes becomes one sentence and an exit code."""
    voice = Voice(as_json)
    try:
        yield voice
    except typer.Exit:
        raise
    except AgentError as error:
        voice.fail(str(error), error.exit_code)
    except KeyboardInterrupt as error:
        voice.fail(str(error) or "stopped", INTERRUPTED)
    except BrokenPipeError:  # the reader of stdout has gone, as `head` does
        _silence_stdout()
        raise typer.Exit(0) from None
    except Exception as error:
        error = _of_the_disk(error) or error
        code = _known(error)
        if code is None:
            if as_json:
                print(_failure(f"a fault of codasmith itself, {type(error).__name__}: {error}", 1))
            raise
        voice.fail(str(error), code)


class Commands(typer.core.TyperGroup):
    """A group of commands whose errors of use, too, are one JSON object on stdout where --json is given."""

    _as_json = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        self._as_json = "--json" in args[: args.index("--") if "--" in args else None]
        with self._said():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with self._said():
            return super().invoke(ctx)

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # by its shape: typer brings its own click, or uses the installed one
            if self._as_json and hasattr(error, "format_message"):
                code = getattr(error, "exit_code", USER_MISTAKE)
                print(_failure(" ".join(error.format_message().split()), code))
            raise


def _failure(message: str, code: int) -> str:
    return json.dumps({"error": message, "exit_code": code})


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_the_disk(error: Exception) -> AgentError | None:
    """A disk that is full, or a place that takes no file, in one sentence; None for anything else."""
    if not isinstance(error, OSError) or error.errno not in (*FULL, *_NOT_THERE):
        return None
    if error.filename is None and error.errno not in FULL:
        return None
    return cannot_write(error.filename or "what was to be kept", error, "name another place")


def _known(error: Exception) -> int | None:
    """The exit code of an error of the layers below that is already one sentence; None for a bug of ours."""
    if isinstance(error, AgentError):
        return error.exit_code
    from .models import ModelError
    from .report import model_exit_code

    if isinstance(error, ModelError):
        return model_exit_code(error.kind)
    names = {kind.__name__ for kind in type(error).__mro__}  # by name: their modules import torch
    full = getattr(error.__context__, "errno", None) in FULL  # what it was told by
    return (MACHINE_CANNOT if full else USER_MISTAKE) if names & {"TaskError", "RegistryError"} else None
