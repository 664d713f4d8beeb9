"""Outputs as wide as the accumulator, twice or half of it: the main store D, and those beside it."""

from __future__ import annotations

from ..primitives.types import DOUBLE, FULL
from .errors import TemplateError
from .signature import Argument
from .writer import Writer


def choose_main_store(w: Writer, stores: list[str]) -> None:
    widths = {n: w.types[w.graph.outputs[n]].cols for n in stores}
    if w.mode == "acc_pair":
        full = [n for n in stores if widths[n] == FULL]
        w.d = next((n for n in w.frame.accumulates if n in full), full[0] if full else None)
    elif w.mode == "packed_cd_b16x2":
        double = [n for n in stores if widths[n] == DOUBLE]
        if len(double) != 1 or w.c is None:
            raise TemplateError(
                "Beside an operand or output of 2N columns there must be one 2N-wide tile in and one 2N-wide "
                f"output; the outputs of that width are: {', '.join(double) or 'none'}.",
                "Read one packed tile and return one packed output.",
                "packed-store",
            )
        w.d = double[0]
        if w.frame.tensors[w.d].dtype != w.frame.tensors[w.c].dtype:
            raise TemplateError(
                f"The packed output {w.d} is {w.frame.tensors[w.d].dtype} and the packed tile {w.c} is "
                f"{w.frame.tensors[w.c].dtype}; they must be the same.",
                "Declare the same dtype.",
                "packed-dtype",
            )
    else:
        w.d = next((n for n in w.frame.accumulates if n in stores), stores[0] if stores else None)
    for name in w.frame.accumulates:
        if name != w.d or w.mode == "packed_cd_b16x2":
            raise TemplateError(
                f"The output {name} is accumulated in place, and only the main store of width N can do that.",
                "Write it out of place.",
                "accumulate",
            )


def store(w: Writer, name: str, root: int) -> None:
    kind, lanes, spec = w.types[root], w.lanes[root], w.frame.tensors[name]
    if not (kind.rows and kind.cols):
        raise TemplateError(
            f"The output {name} is {kind}, the same for whole rows or columns; a tile stores values that fill it.",
            "Return an expression of the accumulator or of a tile.",
            "narrow-output",
        )
    if spec.halves:
        raise TemplateError(
            f"The output {name} is laid out as halves, and the GEMM stores adjacent columns.",
            "Declare it with layout='pairs'.",
            "halves-output",
        )
    if name == w.d:
        pairs = len(lanes) == 2
        w.results["D"] = f"pack({lanes[0]}, {lanes[1]})" if pairs else lanes[0]
        return
    if w.mode == "acc_pair" and kind.cols == FULL:
        field = f"y_{name}"
        w.sinks[field] = f'WideStore("{field}")'
        w.results[field] = f"pack({lanes[0]}, {lanes[-1]})"
        w.arguments.append(Argument(field=field, name=name, role="store"))
        return
    if w.mode == "acc_pair" and spec.dtype not in ("bf16", "fp16"):
        raise TemplateError(
            f"The output {name} is {spec.dtype} and N/2 wide; such a store is 16-bit only.",
            "Declare it in the storage dtype.",
            "half-width-dtype",
        )
    field = f"y_{name}"
    w.stores.append(field)
    w.results[field] = lanes[0]
    w.arguments.append(Argument(field=field, name=name, role="store"))
