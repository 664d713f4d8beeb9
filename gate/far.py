"""Sizes far beyond those that are timed, for epilogues that know where they stand.

One that asks for its row or its column could be right on all sizes that a task declares and wrong beyond the last,
where whoever loads it will use it.  So it is compared with the reference in float64 there too, one dimension long and
the others as small as they can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..primitives.graph import COMPARISONS, Graph
from ..tasks import Task, Workload, legal
from ..tasks.domain import symbol_step

FAR = 2**20
"""Rows or columns."""
MOST = 3 * 2**23
"""Elements of all tensors together: one dimension is shorter where they would be more."""
_PLACES = {"row_index", "column_index"}


def knows_its_place(graph: Graph) -> bool:
    """Whether coordinates, or column numbers beside numbers, have a part in the epilogue."""
    index = {o.name for o in graph.operands if o.index}
    return any(
        node.op in _PLACES or (node.op in COMPARISONS and any(graph.nodes[a].name in index for a in node.args))
        for node in graph.nodes
    )


def far_workloads(task: Task, graphs: Iterable[Graph]) -> list[Workload]:
    """A workload for each dimension of the task's products; none if no epilogue knows where it stands."""
    if not any(knows_its_place(graph) for graph in graphs):
        return []
    steps = {symbol: symbol_step(task, symbol) for symbol in task.symbols}
    made: list[Workload] = []
    for symbol in dict.fromkeys(d.symbol for part in task.parts.values() for d in (part.m, part.n) if d.symbol):
        count = FAR // steps[symbol]
        while count > 1 and _elements(task, {**steps, symbol: count * steps[symbol]}) > MOST:
            count //= 2
        sizes = {**steps, symbol: count * steps[symbol]}
        if legal(task, sizes) is None:
            made.append(Workload(sizes=sizes, seed=len(made) + 4049))
    return made


def _elements(task: Task, sizes: dict[str, int]) -> int:
    return sum(math.prod(tensor.size(sizes)) for tensor in task.everything.values())
