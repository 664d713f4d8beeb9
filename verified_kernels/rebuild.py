"""Compiling an admitted kernel anew where its objects cannot be used: a driver or a machine that they do not fit.

The same graph, the same schedule, the compiler of this machine; kept by content, so that it happens once.  What comes
out was not gated: it may be used only after it has answered a workload of the record (`recheck`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..tasks import Task
from .errors import RegistryError
from .record import CompiledObject
from .store import Entry


def possible(entry: Entry) -> bool:
    """Whether the entry holds graphs: what somebody else wrote in CuTeDSL the gate alone compiles."""
    return entry.record.tier == "closed" and bool(entry.graphs)


def rebuilt(entry: Entry, task: Task, compiled: CompiledObject) -> tuple[CompiledObject, Path]:
    """The object as this machine's compiler makes it, and where it lies. Raises RegistryError where it cannot be."""
    graph = entry.graphs.get(compiled.stage)
    if graph is None or not possible(entry):
        raise RegistryError(f"{entry.name} is compiled by the gate alone; verify it here")
    from ..gate.frame import frame_of
    from ..templates.compile import Compiler
    from ..templates.generate import generate

    made = generate(graph, frame_of(task.parts[compiled.stage], compiled.storage), compiled.signature.schedule)
    with Compiler() as compiler:
        done = compiler.submit(made.source, made.signature).result()
    if done.object is None or done.signature is None:
        raise RegistryError(f"{entry.name} could not be compiled here ({done.error.splitlines()[0] or 'no reason'})")
    digest = hashlib.sha256(done.object.read_bytes()).hexdigest()
    return compiled.model_copy(update={"sha256": digest, "signature": done.signature}), done.object
