"""How a compiled kernel is called, read from spec.json: every field of the record's signature, whichever there are."""

from __future__ import annotations

from typing import Any


class _Fields:
    """A JSON object's members as attributes, lists as tuples. What is derived from them stands in the subclasses."""

    def __init__(self, data: dict[str, Any]):
        vars(self).update({name: _tuples(value) for name, value in data.items()})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the {type(self).__name__.lower()} in spec.json has no {name}; export the kernel again")


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Schedule(_Fields):
    """Tile and cluster of one compiled object."""

    @property
    def cluster(self) -> int:
        return self.cluster_m * self.cluster_n


class TensorSpec(_Fields):
    """A tensor as the kernel sees it; dimensions are (coefficient, symbol or None)."""

    def size(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(c * (sizes[s] if s else 1) for c, s in self.shape)

    @property
    def text(self) -> str:
        return "[" + ", ".join(f"{c if c != 1 or s is None else ''}{s or ''}" for c, s in self.shape) + "]"


class Argument(_Fields):
    """One field of the epilogue's arguments."""


class Signature(_Fields):
    """Everything a launch needs besides the tensors."""

    schedule: Schedule
    tensors: dict[str, TensorSpec]
    arguments: tuple[Argument, ...]

    @staticmethod
    def read(data: dict[str, Any]) -> Signature:
        """From the JSON of the record."""
        made = Signature(data)
        made.schedule = Schedule(data["schedule"])
        made.tensors = {name: TensorSpec(spec) for name, spec in data["tensors"].items()}
        made.arguments = tuple(map(Argument, data["arguments"]))
        return made

    def join_symbol(self, argument: Argument) -> str:
        return f"{self.symbol}_join_{argument.field}"

    @property
    def sinks(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "sink")
