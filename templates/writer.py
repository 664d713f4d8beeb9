"""The state of writing one kernel's source: what the parts of an epilogue put down, one part after another."""

from __future__ import annotations

from typing import Literal

from ..primitives.graph import COMPARISONS, OPERAND, Graph
from ..primitives.types import DOUBLE, HALF, SAME
from .errors import TemplateError
from .frame import Frame
from .schedule import Schedule
from .signature import Argument

Mode = Literal["element", "acc_pair", "packed_cd_b16x2"]


class Writer:
    """What one kernel is written from, and what is written of it so far."""

    def __init__(self, graph: Graph, frame: Frame, schedule: Schedule):
        self.graph, self.frame, self.schedule = graph, frame, schedule
        self.types = graph.types
        self.operands = {o.name: o for o in graph.used_operands}
        self.mode: Mode = mode_of(graph)
        self.body: list[str] = []
        self.results: dict[str, str] = {}
        self.ops: dict[str, str] = {}
        self.sinks: dict[str, str] = {}
        self.stores: list[str] = []
        self.arguments: list[Argument] = []
        self.d: str | None = None
        self.c: str | None = None
        self.lanes: list[list[str]] = []
        self.heads: dict[str, str] = {}
        self.prepass: list[str] = []
        self.prepass_parameters = ["acc"]
        nodes = graph.nodes
        self.compared = {nodes[a].name for n in nodes if n.op in COMPARISONS for a in n.args if nodes[a].op == OPERAND}
        """Among them, the operands of column numbers that are also values."""
        self.loose = frozenset(
            n for n, o in self.operands.items() if o.kind == "col" and frame.tensors[n].dtype in ("bf16", "fp16")
        )
        """Vectors loaded two elements at a time: beyond an odd M one element of other memory follows."""


def mode_of(graph: Graph) -> Mode:
    """The mode that follows from the graph's widths. Raises TemplateError where no one mode has them all."""
    widths = {t.cols for t in graph.types if t.cols != SAME}
    if HALF in widths and DOUBLE in widths:
        raise TemplateError(
            "The epilogue uses values of N/2 and of 2N columns together.", "Keep to one of the two.", "mixed-widths"
        )
    if HALF in widths:
        return "acc_pair"
    return "packed_cd_b16x2" if DOUBLE in widths else "element"
