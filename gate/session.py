"""The coordinator's side: a compile server and a referee, started when first needed and kept warm."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from ..templates.compile import Compiler
from .pipe import Child, ChildFailed
from .verdict import StageResult

JUDGE_S = 600.0


class Session:
    """Compiler and referee for any number of candidates. `close` it, or leave it to the interpreter's end."""

    def __init__(self) -> None:
        self.compiler = Compiler(reserve=True)
        self._referee: Child | None = None
        self._starting = threading.Lock()
        atexit.register(self.close)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def referee(self) -> Child:
        with self._starting:
            if self._referee is None or not self._referee.alive:
                self._referee = Child("codasmith.gate.referee", start_s=180)
            return self._referee

    def judge(self, job: dict[str, Any], progress: Callable[[str, str], None]) -> list[StageResult]:
        """Send a job and wait for its stages. Raises ChildFailed where the referee itself fails."""
        referee = self.referee
        number = referee.send("judge", **job)
        while True:
            message = referee.read(JUDGE_S)
            if message.get("number") != number:
                referee.kill()
                raise ChildFailed("the referee answered out of turn", "forged")
            if "progress" in message:
                progress(str(message.get("stage", "")), str(message["progress"]))
            elif message.get("ok") is False:
                raise ChildFailed(str(message.get("error", "it failed without a reason")), "error")
            else:
                try:
                    return [StageResult.model_validate(s) for s in message["stages"]]
                except (KeyError, TypeError, ValueError):
                    referee.kill()
                    raise ChildFailed("the referee's answer holds no stages", "forged") from None

    def close(self) -> None:
        self.compiler.close()
        if self._referee is not None:
            self._referee.kill()
            self._referee = None
