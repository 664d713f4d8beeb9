"""Outputs that are reductions: the sink that each becomes in its mode, masked where ragged tiles would count."""

from __future__ import annotations

from ..primitives.graph import REDUCTIONS
from ..primitives.types import DOUBLE, FULL, HALF
from .errors import TemplateError
from .ragged import vanishes
from .signature import Argument, Direction, Join
from .writer import Writer


def reduce(w: Writer, name: str, root: int) -> None:
    node = w.graph.nodes[root]
    direction, join = REDUCTIONS[node.op]
    if w.frame.tensors[name].halves:
        raise TemplateError(
            f"The output {name} is laid out as halves, and the kernel writes adjacent columns.",
            "Declare it with layout='pairs'.",
            "halves-output",
        )
    factors = node.args if join == "sum" else node.args[:1]
    masked = join in ("sum", "absmax") and not vanishes(w.graph, factors, direction, w.loose)
    values = [w.lanes[a] for a in factors]
    width = max(w.types[a].cols for a in factors)
    if join == "select":
        _select(w, name, node.args[1], values[0], width)
        return
    if direction == "col" and w.mode == "packed_cd_b16x2" and width == DOUBLE:
        for lane in (0, 1):
            part = [[v[lane] if len(v) > 1 else v[0]] for v in values]
            _plain(w, name, f"y_{name}_{lane}", direction, join, masked, part, out_stride=2, out_offset=lane)
        return
    if w.mode == "acc_pair":
        _paired(w, name, direction, join, masked, values, width)
        return
    if width == DOUBLE:
        values = [[_folded(w, join, values)]]
    _plain(w, name, f"y_{name}", direction, join, masked, values)


def _plain(
    w: Writer,
    name: str,
    field: str,
    direction: Direction,
    join: Join,
    masked: bool,
    values: list[list[str]],
    **placement: int,
) -> None:
    scaled = len(values) == 2
    w.sinks[field] = sink_op(field, direction, join, masked, scaled)
    w.results[field] = f"({values[0][0]}, {values[1][0]})" if scaled else values[0][0]
    w.arguments.append(Argument(field=field, name=name, role="sink", direction=direction, join=join, **placement))


def _paired(
    w: Writer, name: str, direction: Direction, join: Join, masked: bool, values: list[list[str]], width: int
) -> None:
    """In pair mode a sink takes both lanes and no factors; a half-width value fills one lane."""
    field = f"y_{name}"
    lanes = [product([v[k] if len(v) > 1 else v[0] for v in values]) for k in (0, 1)]
    identity = "Float32(-math.inf)" if join in ("max", "lse") else "Float32(0.0)"
    if width == HALF:
        lanes[1] = identity
    w.sinks[field] = sink_op(field, direction, join, masked, scaled=False)
    w.results[field] = f"pack({lanes[0]}, {lanes[1]})"
    stride = 2 if direction == "col" and width == HALF else 1
    w.arguments.append(Argument(field=field, name=name, role="sink", direction=direction, join=join, stride=stride))


def _folded(w: Writer, join: str, values: list[list[str]]) -> str:
    """Both lanes of a packed value become one number before the sink."""
    lanes = [product([v[k] if len(v) > 1 else v[0] for v in values]) for k in (0, 1)]
    if join == "sum":
        return f"{lanes[0]} + {lanes[1]}"
    if join == "max":
        return f"device.max_nan({lanes[0]}, {lanes[1]})"
    if join == "absmax":
        return f"device.max_nan(cute.math.abs({lanes[0]}), cute.math.abs({lanes[1]}))"
    raise TemplateError(
        "row_lse over 2N columns is not possible.", "Reduce the two halves as two outputs.", "packed-lse"
    )


def _select(w: Writer, name: str, index: int, lanes: list[str], width: int) -> None:
    if width != FULL:
        raise TemplateError(
            "select picks from a value as wide as the accumulator only.", "Select before unpack.", "narrow-select"
        )
    field = f"y_{name}"
    companion = f"x_{w.graph.nodes[index].name}"
    w.sinks[field] = f'ColVecSelect("{field}", {companion})'
    w.results[field] = f"pack({lanes[0]}, {lanes[1]})" if w.mode == "acc_pair" else lanes[0]
    w.arguments.append(Argument(field=field, name=name, role="sink", direction="row", join="select"))


def sink_op(field: str, direction: str, join: str, masked: bool, scaled: bool) -> str:
    if join == "lse":
        return f'OnlineLSEReduce("{field}")'
    kind = "ColVecReduce" if direction == "row" else "RowVecReduce"
    combine = {"sum": "add", "max": "max", "absmax": "max_abs"}[join]
    extra = ", scaled=True" if scaled else ""
    return f'{"Masked" if masked else ""}{kind}("{field}", combine="{combine}"{extra})'


def product(factors: list[str]) -> str:
    return factors[0] if len(factors) == 1 else f"({factors[0]} * {factors[1]})"
