"""The runner: loads compiled objects and launches them on buffers that the referee shares.

It holds no reference and no seed.  Commands come as JSON lines on standard input, answers go as JSON lines
to the descriptor that was standard output when it started; whatever a loaded object prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tvm_ffi  # noqa: F401  with the first object otherwise, when there is less time

from ..templates import syscalls
from ..templates.launch import Kernel
from ..templates.program import Stage, launch
from ..templates.signature import Signature
from . import contain
from .arena import View


class Runner:
    """What is loaded and bound at present."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.held: contain.InForce = {}
        self.reset()

    def reset(self) -> None:
        self.kernels: dict[str, Kernel] = {}
        self.calls: dict[str, Callable[[], None]] = {}
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        return getattr(self, f"do_{command.pop('op')}")(**command) or {}

    def do_attach(self, handle: list[Any], size: int, folder: str, way: contain.Way) -> dict[str, Any]:
        """Start CUDA and open the shared block, with no more rights than that takes; says what is in force."""
        base = Path(folder)
        files = contain.enter(base, way)
        torch.cuda.init()
        self.nothing = torch.zeros(1, device="cuda")
        self.view = View(handle, size)
        torch.cuda.synchronize()
        self.held = contain.seal(base, way, files)
        return {"held": self.held}

    def do_alone(self) -> dict[str, Any]:
        self.held = contain.alone(self.held)
        return {"held": self.held}

    def do_reset(self) -> None:
        self.reset()

    def do_forget(self) -> None:
        """Drop bindings and graphs; objects stay loaded."""
        self.calls.clear()
        self.graphs.clear()

    def do_load(self, kernel: str, path: str, signature: dict[str, Any]) -> None:
        if kernel not in self.kernels:
            self.kernels[kernel] = Kernel(Path(path), Signature.model_validate(signature))

    def do_bind(self, call: str, kernel: str, inputs: dict, outputs: dict, workspace: dict) -> None:
        self.calls[call] = partial(self.kernels[kernel], self._open(inputs), self._open(outputs), self._open(workspace))

    def do_formula(self, call: str, stage: dict[str, Any], tensors: dict) -> None:
        """Bind a stage of a program that is no product: code of ours, known by name."""
        made, opened = Stage.model_validate(stage), self._open(tensors)
        self.calls[call] = partial(launch, made, [opened[n] for n in made.reads], [opened[n] for n in made.writes])

    def do_chain(self, call: str, calls: list[str]) -> None:
        """Bind calls in order as one."""
        bound = [self.calls[name] for name in calls]

        def run() -> None:
            for step in bound:
                step()

        self.calls[call] = run

    def do_launch(self, calls: list[str]) -> None:
        for call in calls:
            self.calls[call]()
        torch.cuda.synchronize()

    def do_graph(self, graph: str, calls: list[str]) -> None:
        """Record the calls once, so that replaying them leaves the host out of the time."""
        for call in calls:
            self.calls[call]()
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for call in calls:
                self.calls[call]()
        self.graphs[graph] = captured
        torch.cuda.synchronize()

    def do_replay(self, graph: str, times: int) -> None:
        """0 times: something empty is launched and waited for, so that the GPU has turned to this process."""
        if not times:
            self.nothing.zero_()
        for _ in range(times):
            self.graphs[graph].replay()
        torch.cuda.synchronize()

    def _open(self, descriptions: dict[str, Any]) -> dict[str, Any]:
        assert self.view is not None
        return {k: self.view.tensor(d) if isinstance(d, dict) else d for k, d in descriptions.items()}


def main() -> None:
    contain.die_with_parent()
    out = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    syscalls.available()  # loads the library, which starts processes to find it
    runner = Runner()
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        number = command.pop("number")
        try:
            reply = {"number": number, "ok": True, **runner.answer(command)}
        except Exception as error:
            reply = {"number": number, "ok": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(reply), file=out, flush=True)


if __name__ == "__main__":
    main()
