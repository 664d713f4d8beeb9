"""The first walk over the accumulator, before anything is stored: statistics of whole heads."""

from __future__ import annotations

from ..primitives.graph import ACC, CONST, EVEN, HEAD_SUM, ODD, OPERAND, PACK
from .errors import TemplateError
from .lanes import apply, literal
from .signature import Argument
from .writer import Writer


def load_heads(w: Writer) -> list[str]:
    """Write the function that runs over the accumulator before the stores, and return what it gives."""
    roots = {i: n for i, n in enumerate(w.graph.nodes) if n.op == HEAD_SUM}
    if not roots:
        return []
    for node in roots.values():
        _check(w, int(node.value))
    needed: set[int] = set()
    for i in reversed(range(len(w.graph.nodes))):
        if i in needed or i in roots:
            needed.update(w.graph.nodes[i].args)
    lanes: list[list[str]] = []
    body, w.body = w.body, w.prepass
    for i, node in enumerate(w.graph.nodes):
        lanes.append(_lane(w, i, [lanes[a] for a in node.args]) if i in needed else [])
    w.body = body
    for i, node in roots.items():
        w.heads[f"h_{i}"] = lanes[node.args[0]][0]
        w.ops[f"h_{i}"] = f'HeadSum("h_{i}")'
        w.arguments.append(Argument(field=f"h_{i}", name=HEAD_SUM, role="constant", value=int(node.value)))
    return list(w.heads)


def _lane(w: Writer, i: int, args: list[list[str]]) -> list[str]:
    node = w.graph.nodes[i]
    if node.op == ACC:
        return ["acc"]
    if node.op == CONST:
        return [literal(node.value)]
    if node.op == OPERAND and w.operands[node.name].kind != "tile":
        field = f"x_{node.name}"
    elif node.op in ("column_index", "row_index"):
        field = f"i_{node.op}"
    elif node.op in (OPERAND, EVEN, ODD, PACK, HEAD_SUM):
        what = f"the tile {node.name}" if node.op == OPERAND else f"{node.op}"
        raise TemplateError(
            f"A head_sum is taken of {what}, which the accumulator's first walk does not have.",
            "Take it of an expression of acc, vectors and scalars.",
            "bad-head-sum",
        )
    else:
        return apply(w, i, args)
    if field not in w.prepass_parameters:
        w.prepass_parameters.append(field)
    return [field]


def _check(w: Writer, head_dim: int) -> None:
    if w.mode == "packed_cd_b16x2":
        raise TemplateError(
            "The epilogue uses head_sum and values of 2N columns together.",
            "Keep to one of the two.",
            "packed-heads",
        )
    b = w.frame.tensors[w.frame.b].shape
    coefficient, symbol = b[0 if w.frame.b_transposed else 1]
    if coefficient % head_dim:
        raise TemplateError(
            f"head_sum adds up {head_dim} columns, and the product has {'' if coefficient == 1 else coefficient}"
            f"{symbol or coefficient} of them, not always a multiple.",
            f"Declare them as {head_dim}H in the task, or use another head_dim.",
            "bad-head-dim",
        )
    if w.schedule.tile_n % head_dim:
        raise TemplateError(
            f"The schedule {w.schedule.name} has tiles of {w.schedule.tile_n} columns, no whole heads of {head_dim}.",
            "Use another schedule, or a head_dim that divides its tile.",
            "tile-width",
        )
