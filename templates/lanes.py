"""One assignment a lane for every node: what stands in the body of a generated epilogue."""

from __future__ import annotations

from ..primitives.graph import ACC, CONST, EVEN, HEAD_SUM, ODD, OPERAND, PACK, REDUCTIONS
from ..primitives.primitive import REGISTRY
from ..primitives.types import DOUBLE, FULL, HALF
from .errors import TemplateError
from .writer import Writer


def load_lanes(w: Writer) -> None:
    """Write one assignment a lane for every node in order."""
    pair = w.mode == "acc_pair"
    packed = w.mode == "packed_cd_b16x2"
    for i, node in enumerate(w.graph.nodes):
        args = [w.lanes[a] for a in node.args]
        if node.op == ACC:
            w.lanes.append(_unpacked(w, "acc", i) if pair else ["acc"])
        elif node.op == CONST:
            w.lanes.append([literal(node.value)])
        elif node.op == OPERAND:
            w.lanes.append(_operand_lanes(w, node.name, i, pair, packed))
        elif node.op in ("column_index", "row_index"):
            w.lanes.append(_coordinate_lanes(w, i))
        elif node.op == HEAD_SUM:
            w.lanes.append(_unpacked(w, f"h_{i}", i) if pair else [f"h_{i}"])
        elif node.op in (EVEN, ODD):
            lanes = args[0]
            chosen = lanes[0] if node.op == EVEN or len(lanes) == 1 else lanes[1]
            w.lanes.append([chosen])
        elif node.op == PACK:
            w.lanes.append([args[0][0], args[1][0]])
        elif node.op in REDUCTIONS:
            w.lanes.append([])
        else:
            w.lanes.append(apply(w, i, args))


def _operand_lanes(w: Writer, name: str, i: int, pair: bool, packed: bool) -> list[str]:
    operand = w.operands[name]
    if operand.kind == "index":
        return [f"x_{name}"] if name in w.compared else []
    variable = "c" if name == w.c else f"x_{name}"
    if (pair and operand.cols == FULL) or (packed and operand.cols == DOUBLE):
        return _unpacked(w, variable, i)
    return [variable]


def _coordinate_lanes(w: Writer, i: int) -> list[str]:
    """The kernel knows the accumulator's columns: those of half its width, or of twice, follow from them."""
    op, width = w.graph.nodes[i].op, w.types[i].cols
    lanes = _unpacked(w, f"i_{op}", i) if w.mode == "acc_pair" else [f"i_{op}"]
    if op == "row_index":
        return lanes[:1]
    if width == HALF:
        return [f"({lanes[0]} * Float32(0.5))"]
    if width == DOUBLE:
        return [f"({lanes[0]} * Float32(2.0))", f"({lanes[0]} * Float32(2.0) + Float32(1.0))"]
    return lanes


def _unpacked(w: Writer, variable: str, i: int) -> list[str]:
    w.body.append(f"v{i}_0, v{i}_1 = unpack({variable})")
    return [f"v{i}_0", f"v{i}_1"]


def apply(w: Writer, i: int, args: list[list[str]]) -> list[str]:
    node = w.graph.nodes[i]
    primitive = REGISTRY[node.op]
    template = primitive.lowering
    if not template:
        raise TemplateError(f"{node.op} has no lowering.", "Use other primitives.", "no-lowering")
    names = list(args)
    for k, a in enumerate(node.args):
        other = w.graph.nodes[a]
        if (node.op, k) == ("div", 1) and other.op == CONST and other.value != 0:
            template = "({a} * {b})"
            names[k] = [literal(1.0 / other.value)]
    count = max((len(n) for n in names), default=1)
    result = []
    for lane in range(count):
        words = {p: (n[lane] if len(n) > 1 else n[0]) for p, n in zip(primitive.parameters, names, strict=False)}
        variable = f"v{i}" if count == 1 else f"v{i}_{lane}"
        w.body.append(f"{variable} = {template.format(**words)}")
        result.append(variable)
    return result


def literal(value: float) -> str:
    text = repr(float(value))
    return f'Float32(float("{text}"))' if "inf" in text or "nan" in text else f"Float32({text})"
