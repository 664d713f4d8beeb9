"""How each operand of an epilogue is loaded: as the tile C, by a resource of quack's or by one of our own."""

from __future__ import annotations

from ..primitives.types import DOUBLE, HALF
from .errors import TemplateError
from .signature import Argument
from .writer import Writer


def load_operands(w: Writer) -> list[str]:
    parameters = []
    for name, operand in w.operands.items():
        field = f"x_{name}"
        spec = w.frame.tensors[name]
        if operand.cols == HALF:
            raise TemplateError(
                f"The operand {name} has N/2 columns, and the GEMM loads tiles and row vectors of N columns only.",
                "Give the task an operand as wide as the accumulator.",
                "half-width-operand",
            )
        if operand.kind == "index":
            w.arguments.append(Argument(field=field, name=name, role="index"))
            if name in w.compared:
                w.ops[field] = field
                parameters.append(field)
            continue
        if operand.kind == "tile":
            if spec.halves:
                raise TemplateError(
                    f"The tile {name} is laid out as halves, and tiles are read in adjacent columns.",
                    "Declare it with layout='pairs'.",
                    "halves-tile",
                )
            if operand.cols == DOUBLE and (spec.dtype not in ("bf16", "fp16") or w.c is not None):
                raise TemplateError(
                    f"The operand {name} has 2N columns; there may be one such tile, in bf16 or fp16.",
                    "Use one packed 16-bit tile.",
                    "packed-operand",
                )
            if operand.cols == DOUBLE or (w.c is None and w.mode != "packed_cd_b16x2" and not w.frame.accumulates):
                w.c = name
                parameters.append("c")
                continue
            w.ops[field] = f'TileLoad("{field}")'
        elif operand.kind == "row":
            if operand.cols == DOUBLE:
                raise TemplateError(
                    f"The row vector {name} has 2N columns, and vectors of N columns can be loaded.",
                    "Give the task two vectors of N columns.",
                    "packed-vector",
                )
            w.ops[field] = f'{"Halves" * spec.halves}RowVecLoad("{field}")'
        elif operand.kind == "col":
            w.ops[field] = f'ColVecLoad("{field}")'
        else:
            w.ops[field] = f'Scalar("{field}", dtype=Float32)'
        role = operand.kind
        w.arguments.append(Argument(field=field, name=name, role=role))
        parameters.append(field)
    return parameters


def load_coordinates(w: Writer) -> list[str]:
    fields = []
    for op, resource in (("column_index", "ColumnIndex"), ("row_index", "RowIndex")):
        if any(n.op == op for n in w.graph.nodes):
            field = f"i_{op}"
            w.ops[field] = f'{resource}("{field}")'
            w.arguments.append(Argument(field=field, name=op, role="constant", value=1))
            fields.append(field)
    return fields
