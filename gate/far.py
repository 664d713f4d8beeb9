"""Sizes far beyond those that are timed, for epilogues that know where they stand.

One that asks for its row or its column could be right on all sizes that a task declares and wrong beyond the last,
where whoever loads it will use it.  So it is compared with the reference in float64 there too, one dimension long and
the others as small as they can be; and where the reference does not know its row, with the rows taken for ones far
down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..primitives.graph import COMPARISONS, CONST, Graph
from ..primitives.node import Node
from ..tasks import Task, Workload, legal
from ..tasks.blocks import blind_to_rows
from ..tasks.domain import symbol_step

FAR = 2**20
"""Rows or columns."""
MOST = 3 * 2**23
"""Elements of all tensors together: one dimension is shorter where they would be more."""
WORK = 2**29
"""Elements of the products times operations: a few seconds. A longer epilogue is looked at on fewer elements."""
DOWN = tuple(2**n for n in range(12, 21))
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
    graphs = list(graphs)
    if not any(knows_its_place(graph) for graph in graphs):
        return []
    operations = sum(len(graph.nodes) for graph in graphs)
    steps = {symbol: symbol_step(task, symbol) for symbol in task.symbols}
    made: list[Workload] = []
    for symbol in dict.fromkeys(d.symbol for part in task.parts.values() for d in (part.m, part.n) if d.symbol):
        count = FAR // steps[symbol]
        while count > 1 and _too_much(task, {**steps, symbol: count * steps[symbol]}, operations):
            count //= 2
        sizes = {**steps, symbol: count * steps[symbol]}
        if legal(task, sizes) is None:
            made.append(Workload(sizes=sizes, seed=len(made) + 4049))
    return made


def all_near(task: Task, workload: Workload) -> bool:
    """Whether all rows of a workload come before DOWN; not where the task has no other rows."""
    rows = workload.sizes.get(task.m.symbol) if task.m.symbol else None
    return rows is not None and rows < min(DOWN)


def far_down(task: Task, graph: Graph) -> list[Graph]:
    """The epilogue as rows far below the first would have it, by DOWN: on any inputs it must answer what it answers
    there, unless the reference knows its row. None if the epilogue does not ask for its row, or the reference does."""
    asks = [i for i, node in enumerate(graph.nodes) if node.op == "row_index"]
    return [_moved(graph, rows) for rows in DOWN] if asks and blind_to_rows(task) else []


def _moved(graph: Graph, rows: int) -> Graph:
    """The same graph with so much added to each row number."""
    nodes: list[Node] = []
    place: list[int] = []
    for node in graph.nodes:
        nodes.append(node.model_copy(update={"args": tuple(place[a] for a in node.args)}))
        if node.op == "row_index":
            nodes.append(Node(op=CONST, value=float(rows)))
            nodes.append(Node(op="add", args=(len(nodes) - 2, len(nodes) - 1), line=node.line))
        place.append(len(nodes) - 1)
    return graph.model_copy(update={"nodes": tuple(nodes), "outputs": {n: place[i] for n, i in graph.outputs.items()}})


def _too_much(task: Task, sizes: dict[str, int], operations: int) -> bool:
    elements = sum(math.prod(tensor.size(sizes)) for tensor in task.everything.values())
    grid = sum(part.m.size(sizes) * part.n.size(sizes) for part in task.parts.values())
    return elements > MOST or grid * operations > WORK
