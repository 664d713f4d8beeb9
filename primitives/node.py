"""One operation of a graph, and the error for expressions that have no meaning."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

ACC = "acc"
CONST = "const"
OPERAND = "operand"
EVEN = "even"  # the first value of unpack
ODD = "odd"  # the second
PACK = "pack"
HEAD_SUM = "head_sum"  # the width of a head is the node's value

REDUCTIONS: dict[str, tuple[Literal["row", "col"], Literal["sum", "max", "absmax", "lse", "select"]]] = {
    "row_sum": ("row", "sum"),
    "col_sum": ("col", "sum"),
    "row_max": ("row", "max"),
    "col_max": ("col", "max"),
    "row_absmax": ("row", "absmax"),
    "col_absmax": ("col", "absmax"),
    "row_lse": ("row", "lse"),
    "select": ("row", "select"),
}
"""Primitives that end a row or a column: the direction, and how partials of tiles join."""


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class GraphError(ValueError):
    """An expression that has no meaning in an epilogue: what, and what to write instead."""

    def __init__(self, message: str, remedy: str = "", code: str = "bad-expression"):
        super().__init__(f"{message} {remedy}".strip())
        self.message, self.remedy, self.code = message, remedy, code


class Node(BaseModel):
    """One operation. `args` are indices of earlier nodes."""

    model_config = ConfigDict(frozen=True)

    op: str
    args: tuple[int, ...] = ()
    name: str = ""
    """The operand's name, for op "operand"."""
    value: float = 0.0
    """The number, for op "const"; the columns of a head, for op "head_sum"."""
    line: int | None = None
    """Where it stands in the candidate's source; no part of the digest."""

    @property
    def key(self) -> tuple:
        # repr: 0.0 and -0.0 are different constants.
        return (self.op, self.args, self.name, repr(self.value))
