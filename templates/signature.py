"""How a compiled kernel is called: what its operands mean, in which order, and what joins its partials.

Plain data with a JSON round-trip, kept beside the object: launching needs this and nothing else.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from .schedule import Schedule

Role = Literal["row", "col", "tile", "scalar", "index", "store", "sink", "constant"]

Direction = Literal["", "row", "col"]
Join = Literal["", "sum", "max", "absmax", "lse", "select"]


class TensorSpec(BaseModel):
    """A tensor of the task as the kernel sees it. Dimensions are (coefficient, symbol or None)."""

    model_config = ConfigDict(frozen=True)

    shape: tuple[tuple[int, str | None], ...]
    dtype: str
    """"bf16", "fp16", "f32", "i32", "i64"; "float" for a Python float."""
    halves: bool = False

    def size(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(c * (sizes[s] if s else 1) for c, s in self.shape)

    @property
    def text(self) -> str:
        return "[" + ", ".join(f"{c if c != 1 or s is None else ''}{s or ''}" for c, s in self.shape) + "]"


class Argument(BaseModel):
    """One field of the epilogue's arguments."""

    model_config = ConfigDict(frozen=True)

    field: str
    """Its name inside the kernel."""
    name: str
    """The task's tensor."""
    role: Role
    direction: Direction = ""
    """For a sink: reduced per row or per column."""
    join: Join = ""
    """For a sink: how the partials of tiles join; "select" is written directly."""
    stride: int = 1
    offset: int = 0
    """For a column sink: partial column offset + stride * j belongs to element j of the output."""
    out_stride: int = 1
    out_offset: int = 0
    value: int | float | None = None
    """For role "constant": the number compiled in."""


class Signature(BaseModel):
    """Everything a launch needs besides the tensors."""

    model_config = ConfigDict(frozen=True)

    abi: str
    task: str
    schedule: Schedule
    mode: Literal["element", "acc_pair", "packed_cd_b16x2"]
    storage: str
    a: str
    a_transposed: bool
    b: str
    b_transposed: bool
    tensors: dict[str, TensorSpec]
    """Inputs and outputs by name."""
    inputs: tuple[str, ...]
    """In the order of the task's reference."""
    outputs: tuple[str, ...]
    d: str | None = None
    """The output that the main store writes."""
    c: str | None = None
    """The tile that travels with the main load."""
    arguments: tuple[Argument, ...] = ()
    accumulates: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Order of the epilogue's arguments in the compiled call; filled in by the compiler."""
    symbol: str = ""
    """Name of the compiled GEMM; joins are called symbol_join_N."""

    def join_symbol(self, argument: Argument) -> str:
        return f"{self.symbol}_join_{argument.field}"

    @property
    def sinks(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "sink")
