"""Types of the values inside an epilogue.

Every value is float32 (or a truth value, or a column number to select or compare) and lives on a grid of
rows by columns.  Columns are counted relative to the accumulator, whose width is N: a value may be as
wide as the accumulator, half as wide (one lane of adjacent column pairs), twice as wide (pairs packed
from two values), or the same in all columns.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SAME = 0  # the same in every column: a vector of length M, or a scalar
HALF = 1  # N/2 columns
FULL = 2  # N columns, the accumulator's width
DOUBLE = 4  # 2N columns

WIDTHS = {SAME: "1", HALF: "N/2", FULL: "N", DOUBLE: "2N"}

ValueDType = Literal["f32", "bool", "index"]
Reduced = Literal["", "row", "col"]


class ValueType(BaseModel):
    """What a node of the graph is."""

    model_config = ConfigDict(frozen=True)

    rows: bool
    """Whether it differs from row to row."""
    cols: int
    """SAME, HALF, FULL or DOUBLE."""
    dtype: ValueDType = "f32"
    reduced: Reduced = ""
    """"row": reduced over each row's columns; "col": over each column's rows. Final: may only be returned."""

    def __str__(self) -> str:
        rows = "M" if self.rows else "1"
        text = f"[{rows} x {WIDTHS[self.cols]}]"
        if self.dtype == "bool":
            text += " of truth values"
        if self.dtype == "index":
            text += " of column numbers"
        if self.reduced:
            text += f", reduced over {'rows' if self.reduced == 'col' else 'columns'}"
        return text


class Operand(BaseModel):
    """A parameter of an epilogue besides the accumulator: its grid, and what it holds."""

    model_config = ConfigDict(frozen=True)

    name: str
    rows: bool
    cols: int
    index: bool = False
    """Column numbers (int32 or int64, one a row) to select or to compare; not a value to compute with."""

    @property
    def kind(self) -> Literal["row", "col", "tile", "scalar", "index"]:
        """ "row" (length N), "col" (length M), "tile", "scalar" or "index"."""
        if self.index:
            return "index"
        if self.rows and self.cols:
            return "tile"
        if self.cols:
            return "row"
        return "col" if self.rows else "scalar"

    @property
    def type(self) -> ValueType:
        return ValueType(rows=self.rows, cols=self.cols, dtype="index" if self.index else "f32")
