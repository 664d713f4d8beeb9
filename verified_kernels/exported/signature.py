"""How a compiled kernel is called, read from spec.json: the attributes that launch.py and bound.py look at."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


def _made(cls: type, data: dict[str, Any]) -> Any:
    known = {field.name for field in fields(cls)}
    return cls(**{name: value for name, value in data.items() if name in known})


@dataclass(frozen=True)
class Schedule:
    """Tile and cluster of one compiled object."""

    tile_m: int
    tile_n: int
    pingpong: bool
    cluster_m: int = 2
    cluster_n: int = 1
    swizzle: int = 8

    @property
    def cluster(self) -> int:
        return self.cluster_m * self.cluster_n


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as the kernel sees it; dimensions are (coefficient, symbol or None)."""

    shape: tuple
    dtype: str
    halves: bool = False

    def size(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(c * (sizes[s] if s else 1) for c, s in self.shape)

    @property
    def text(self) -> str:
        return "[" + ", ".join(f"{c if c != 1 or s is None else ''}{s or ''}" for c, s in self.shape) + "]"


@dataclass(frozen=True)
class Argument:
    """One field of the epilogue's arguments."""

    field: str
    name: str
    role: str
    join: str = ""
    direction: str = ""


@dataclass(frozen=True)
class Signature:
    """Everything a launch needs besides the tensors."""

    schedule: Schedule
    storage: str
    a: str
    a_transposed: bool
    b: str
    tensors: dict[str, TensorSpec]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    d: str | None
    c: str | None
    arguments: tuple[Argument, ...]
    accumulates: tuple[str, ...]
    fields: tuple[str, ...]
    symbol: str

    @staticmethod
    def read(data: dict[str, Any]) -> Signature:
        """From the JSON of the record."""
        parts = {
            "schedule": _made(Schedule, data["schedule"]),
            "tensors": {name: _made(TensorSpec, spec) for name, spec in data["tensors"].items()},
            "arguments": tuple(_made(Argument, argument) for argument in data["arguments"]),
        }
        parts |= {name: tuple(data[name]) for name in ("inputs", "outputs", "accumulates", "fields")}
        return _made(Signature, {**data, **parts})

    def join_symbol(self, argument: Argument) -> str:
        return f"{self.symbol}_join_{argument.field}"

    @property
    def sinks(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "sink")
