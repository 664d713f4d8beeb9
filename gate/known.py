"""Is a candidate the same expression as an epilogue that the project ships? It is recorded, not refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..primitives.graph import Graph
from ..primitives.reader import read
from ..tasks.load import catalogue, program_tasks

# Candidate files beside this package, read as text: nothing of the registry is imported.
_HAND_WRITTEN = Path(__file__).parent.parent / "verified_kernels" / "hand_written"


def same_as(graph: Graph) -> str | None:
    """The name of the hand-written epilogue with the same graph, if there is one."""
    return _digests(frozenset(graph.outputs)).get(graph.digest)


@cache
def _digests(outputs: frozenset[str]) -> dict[str, str]:
    """Names by digest, of the epilogues with these outputs: others cannot be the same."""
    found: dict[str, str] = {}
    for task in (*catalogue().values(), *program_tasks().values()):
        for stage, part in task.parts.items():
            path = _HAND_WRITTEN / ("programs" if stage else "") / f"{task.name}.py"
            if outputs == set(part.outputs) and path.exists():
                graph = read(path.read_text(), list(part.operands.values()), name=stage or None)
                found.setdefault(graph.digest, task.name + f":{stage}" * bool(stage))
    return found
