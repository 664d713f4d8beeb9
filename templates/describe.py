"""Read the calling convention off an epilogue that a candidate built itself (the open tier)."""

from __future__ import annotations

from typing import Any

from .errors import TemplateError
from .signature import Argument, Direction, Join, Signature

_JOINS: dict[str, Join] = {"add": "sum", "max": "max", "max_abs": "absmax"}


def describe(module: Any, frame: Signature) -> Signature:
    """The signature of a CuTeDSL candidate.

    The module defines `epilogue`, made by quack's gemm_epilogue.  Its parameters and returned names are the
    task's; `MAIN` names the output that "D" stores and `C` the tile passed as quack's c operand, where used;
    `CONSTANTS` gives numbers for parameters compiled in.  Raises TemplateError for what does not fit the task.
    """
    from quack.epilogue.ops import ColVecLoad, ColVecSelect, OnlineLSEReduce, RowVecLoad, Scalar, TileLoad, VecReduce

    mod = module.epilogue
    main, c = getattr(module, "MAIN", None), getattr(module, "C", None)
    constants = dict(getattr(module, "CONSTANTS", {}))
    operands = tuple(n for n in frame.inputs if n not in (frame.a, frame.b))
    arguments: list[Argument] = []

    def known(name: str, among: tuple[str, ...], what: str) -> None:
        if name not in among:
            raise TemplateError(
                f"The candidate's {what} {name!r} is none of the task's.",
                f"Use {', '.join(among) or 'none'}.",
                "unknown-name",
            )

    for name in mod.operand_names:
        if name == "c":
            continue
        if name in constants:
            arguments.append(Argument(field=name, name=name, role="constant", value=constants[name]))
            continue
        known(name, operands, "operand")
        op = mod.ops.get(name)
        role = _role(op, frame, name, (RowVecLoad, ColVecLoad, TileLoad, Scalar))
        if role == "row" and frame.tensors[name].halves and type(op) in (type(None), RowVecLoad):
            raise TemplateError(
                f"The vector {name} is laid out as halves, and RowVecLoad reads adjacent columns.",
                "Read it by a subclass of RowVecLoad whose begin takes element (n % 2) * (N // 2) + n // 2 for "
                "column n.",
                "halves-vector",
            )
        arguments.append(Argument(field=name, name=name, role=role))
    for op in mod.extra_ops:
        known(op.name, operands, "operand")
        arguments.append(Argument(field=op.name, name=op.name, role="index"))
    for name in mod.outputs:
        known(name, frame.outputs, "output")
        arguments.append(Argument(field=name, name=name, role="store"))
    for name, op in mod.sinks.items():
        known(name, frame.outputs, "output")
        if isinstance(op, ColVecSelect):
            arguments.append(Argument(field=name, name=name, role="sink", direction="row", join="select"))
        elif isinstance(op, VecReduce):
            join: Join = "lse" if isinstance(op, OnlineLSEReduce) else _JOINS[op.combine]
            direction: Direction = "row" if op.dim == 0 else "col"
            arguments.append(Argument(field=name, name=name, role="sink", direction=direction, join=join))
        else:
            arguments.append(Argument(field=name, name=name, role="store"))
    if main is not None:
        known(main, frame.outputs, "MAIN")
    if c is not None:
        known(c, operands, "C")
    if "c" in mod.operand_names and c is None:
        raise TemplateError(
            "The epilogue takes c and the module does not say which tile that is.", 'Add C = "name".', "no-c"
        )
    written = {a.name for a in arguments if a.role in ("store", "sink")} | ({main} if main else set())
    missing = [n for n in frame.outputs if n not in written]
    if missing:
        raise TemplateError(
            f"The candidate does not write the output {missing[0]}.",
            'Add it to outputs=, to outs=, or as MAIN = "name" with the key "D".',
            "missing-output",
        )
    return frame.model_copy(update={"mode": mod.mode, "d": main, "c": c, "arguments": tuple(arguments)})


def _role(op: Any, frame: Signature, name: str, kinds: tuple[type, ...]) -> Any:
    row, col, tile, scalar = kinds
    for kind, role in ((row, "row"), (col, "col"), (tile, "tile"), (scalar, "scalar")):
        if op is not None and isinstance(op, kind):
            return role
    spec = frame.tensors[name]
    if spec.dtype == "float":
        return "scalar"
    if len(spec.shape) == 2:
        return "tile"
    rows = frame.tensors[frame.a].shape[1 if frame.a_transposed else 0]
    return "col" if spec.shape[0] == rows else "row"
