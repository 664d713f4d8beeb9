"""Sizes far beyond those that are timed, for epilogues that know where they stand.

One that asks for its row or its column could be right on all sizes that a task declares and wrong beyond the last,
where whoever loads it will use it.  So it is compared with the reference in float64 there too, one dimension long and
the others as small as they can be; and where the reference does not know its row, with the rows taken for ones far
down.  And in float32, as a kernel computes, by the rule for a kernel's numbers: there a sum of whole numbers can be
right up to any row that one likes, and wrong below.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence

import torch

from ..primitives.graph import COMPARISONS, CONST, Graph
from ..primitives.node import Node
from ..tasks import Task, Workload, draw, legal, unfused
from ..tasks.blocks import blind_to_rows
from ..tasks.domain import symbol_step
from ..tasks.inputs import Inputs
from ..tasks.oracle import cast
from .tolerance import Errors, judge
from .verdict import Finding

FAR = 2**20
"""Rows or columns."""
MOST = 3 * 2**23
"""Elements of all tensors together: one dimension is shorter where they would be more."""
WORK = 2**29
"""Elements of the products times operations, and times the rows that are asked for: a few seconds. A longer epilogue is
looked at on fewer elements."""
NEAR = 2**12
"""Rows: a workload of fewer is also asked as rows further down."""
RANGES = 10
"""Fourfold ones, to FAR."""
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
    asks = any(node.op == "row_index" for graph in graphs for node in graph.nodes) and blind_to_rows(task)
    steps = {symbol: symbol_step(task, symbol) for symbol in task.symbols}
    made: list[Workload] = []
    for symbol in dict.fromkeys(d.symbol for part in task.parts.values() for d in (part.m, part.n) if d.symbol):
        count = FAR // steps[symbol]
        times = 1 + 2 * RANGES * (asks and symbol != task.m.symbol)
        while count > 1 and _too_much(task, {**steps, symbol: count * steps[symbol]}, operations * times):
            count //= 2
        sizes = {**steps, symbol: count * steps[symbol]}
        if legal(task, sizes) is None:
            made.append(Workload(sizes=sizes, seed=len(made) + 4049))
    return made


def all_near(task: Task, workload: Workload) -> bool:
    """Whether a workload's rows are few; not where the task has no other rows."""
    rows = workload.sizes.get(task.m.symbol) if task.m.symbol else None
    return rows is not None and rows < NEAR


def down() -> list[int]:
    """Row numbers up to FAR, two neighbours of each fourfold range, drawn anew: nobody knows which."""
    first = [4**n + secrets.randbelow(3 * 4**n) for n in range(RANGES)]
    return [number + one for number in first for one in (0, 1)]


def far_down(task: Task, graph: Graph, numbers: Sequence[int]) -> list[Graph]:
    """The epilogue as rows so far below the first would have it: on any inputs it must answer what it answers there,
    unless the reference knows its row. None if the epilogue does not ask for its row, or the reference does."""
    asks = [i for i, node in enumerate(graph.nodes) if node.op == "row_index"]
    return [_moved(graph, number) for number in numbers] if asks and blind_to_rows(task) else []


class InFloat32:
    """A far workload as a kernel meets it: its inputs in float32, and what the unfused path loses on them."""

    def __init__(self, task: Task, workload: Workload, expected: dict[str, torch.Tensor]):
        drawn = draw(task, workload)
        self.workload, self.expected = workload, expected
        self.inputs: Inputs = cast(drawn, torch.float32)
        self.plain = unfused(task, drawn)
        self._right: dict[str, torch.Tensor] = {}

    def finding(self, answer: dict[str, torch.Tensor], when: str = "") -> Finding | None:
        """What is wrong with an answer that was computed in float32, of a formula that is right in float64."""
        if self._right and all(torch.equal(answer[name], value) for name, value in self._right.items()):
            return None  # rows further down answer the same, as they should
        for name, plain in self.plain.items():
            found = judge(answer[name].to(plain.dtype), self.expected[name], plain, plain.dtype)
            if not found.ok:
                return _lost(name, self.workload, found, when)
        self._right = answer
        return None


def _lost(name: str, workload: Workload, found: Errors, when: str) -> Finding:
    return Finding(
        code="wrong-values",
        message=f"The output {name} agrees with the reference in float64 and not in float32, in which a kernel "
        f"computes, on {workload.label}{when}: {found}.",
        remedy="Keep whole numbers below 2^24, where float32 has them all: compare row_index and column_index as they "
        "are, or add small numbers to them only.",
        output=name,
        details={"workload": workload.label, "family": workload.family},
    )


def _moved(graph: Graph, number: int) -> Graph:
    """The same graph with so much added to each row number."""
    nodes: list[Node] = []
    place: list[int] = []
    for node in graph.nodes:
        nodes.append(node.model_copy(update={"args": tuple(place[a] for a in node.args)}))
        if node.op == "row_index":
            nodes.append(Node(op=CONST, value=float(number)))
            nodes.append(Node(op="add", args=(len(nodes) - 2, len(nodes) - 1), line=node.line))
        place.append(len(nodes) - 1)
    return graph.model_copy(update={"nodes": tuple(nodes), "outputs": {n: place[i] for n, i in graph.outputs.items()}})


def _too_much(task: Task, sizes: dict[str, int], operations: int) -> bool:
    elements = sum(math.prod(tensor.size(sizes)) for tensor in task.everything.values())
    grid = sum(part.m.size(sizes) * part.n.size(sizes) for part in task.parts.values())
    return elements > MOST or grid * operations > WORK
