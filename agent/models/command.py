"""Any program as a model: the prompt on its standard input, the answer on its standard output."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from .model import Answer, Message, ModelError, OnText, Usage

MOST_OUTPUT = 8 << 20  # bytes; an answer is a few kilobytes, and a program that never stops must not fill the memory
POLL = 0.1
_NOT_FOUND = "was not found; install it, or give its whole path"


class Command:
    """`command:PROGRAM ARGS`. It reports no usage and cannot be held to a number of tokens; its time is limited."""

    concurrent = True

    def __init__(self, line: str, *, timeout: float = 600.0) -> None:
        """line: the program and its arguments, quoted as for a shell, which is not used.

        timeout: seconds until the program and all that it started are killed.

        Raises ModelError for a line that cannot be split, and for a program that is not there or may not be run.
        """
        try:
            self.arguments = shlex.split(line)
        except ValueError as error:
            raise ModelError(f"command:{line} cannot be read ({error}); close the quotes", "bad-request") from None
        if not self.arguments:
            raise ModelError("command: names no program; write command:PROGRAM ARGS", "bad-request")
        self.name = f"command:{line}"
        self.program = self.arguments[0]
        self.timeout = timeout
        if shutil.which(self.program) is None:
            there = Path(self.program).exists() and os.sep in self.program
            reason = "may not be run; check that it is a program and executable" if there else _NOT_FOUND
            raise ModelError(f"the program {self.program!r} {reason}", "bad-request")

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        """Run the program once. `max_tokens` is not passed on. Raises ModelError."""
        began = time.monotonic()
        # Files for input and errors: a pipe that nobody empties would block either side.
        with tempfile.TemporaryFile() as prompt, tempfile.TemporaryFile() as errors:
            prompt.write(as_text(messages).encode("utf-8", "replace"))
            prompt.seek(0)
            process = self._start(prompt, errors)
            try:
                text = self._read(process, began + self.timeout, on_text)
            finally:
                _kill_group(process)
            if process.returncode != 0:
                raise ModelError(f"{self.program} {_ending(process.returncode)}{_tail(errors)}", "other")
            if not text.strip():
                raise ModelError(
                    f"{self.program} ended without an answer on its standard output{_tail(errors)}", "other"
                )
        return Answer(text=text, usage=Usage(known=False), model=self.name, seconds=time.monotonic() - began)

    def _start(self, prompt: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.arguments, stdin=prompt, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        except FileNotFoundError:
            reason = _NOT_FOUND
        except PermissionError:
            reason = "may not be run; check that it is a program and executable"
        except OSError as error:
            reason = f"cannot be started: {error.strerror}"
        raise ModelError(f"the program {self.program!r} {reason}", "unreachable")

    def _read(self, process: subprocess.Popen[bytes], deadline: float, on_text: OnText | None) -> str:
        """All that the program writes until it ends; a child that it leaves behind is not waited for."""
        assert process.stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces: list[str] = []
        size = 0
        with process.stdout as output:
            while True:
                if (left := deadline - time.monotonic()) <= 0:
                    raise self._too_long()
                ended = process.poll() is not None
                if not select.select([output], [], [], 0 if ended else min(left, POLL))[0]:
                    if ended:
                        break
                    continue
                chunk = os.read(output.fileno(), 1 << 16)
                piece = decoder.decode(chunk, final=not chunk)
                if piece:
                    pieces.append(piece)
                    if on_text is not None:
                        on_text(piece)
                size += len(chunk)
                if size > MOST_OUTPUT:
                    raise ModelError(f"{self.program} wrote more than {MOST_OUTPUT >> 20} MiB and was killed", "other")
                if not chunk:
                    break
        try:
            process.wait(max(deadline - time.monotonic(), POLL))
        except subprocess.TimeoutExpired:
            raise self._too_long() from None
        return "".join(pieces)

    def _too_long(self) -> ModelError:
        return ModelError(
            f"{self.program} did not end within {self.timeout:g} s and was killed; give it more with --timeout",
            "timeout",
        )


def as_text(messages: Sequence[Message]) -> str:
    """A conversation as one plain text: a lone turn as it is, several each under the name of who speaks."""
    if len(messages) == 1:
        return messages[0].content
    return "\n\n".join(f"===== {m.role} =====\n\n{m.content}" for m in messages) + "\n"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ending(code: int) -> str:
    if code > 0:
        return f"failed with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _tail(errors: IO[bytes], limit: int = 400) -> str:
    """The end of what it wrote to its standard error, on one line."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(size - 4 * limit, 0))
    words = " ".join(errors.read().decode("utf-8", "replace").split())
    if not words:
        return ""
    return ": " + (words if len(words) <= limit else "... " + words[-limit:])
