"""What a primitive is: one named operation with two meanings that must agree.

The torch meaning is the body of an ordinary Python function; the lowering is a line of CuTeDSL over
one float32 lane, with the function's parameters in braces.  Both stand side by side where the
primitive is defined, and its docstring is what a model reads in the prompt.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Class = Literal["values", "coordinates", "pairs", "vectors", "heads", "reductions", "stateful"]


@dataclass(frozen=True)
class Primitive:
    """One entry of the vocabulary."""

    name: str
    group: Class
    torch: Callable
    """Its meaning on torch tensors."""
    lowering: str
    """CuTeDSL for one lane, e.g. "cute.math.exp({x}, fastmath=True)"; empty where the template lowers it."""
    parameters: tuple[str, ...]
    required: int
    """How many of the parameters have no default."""
    truth: bool = False
    """Whether the result is a truth value."""
    bounded: bool = False
    """Whether finite arguments always give a finite result (used to prove that ragged lanes add nothing)."""

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.torch) or ""

    @property
    def signature(self) -> str:
        return f"{self.name}{inspect.signature(self.torch)}"


REGISTRY: dict[str, Primitive] = {}


def primitive(
    group: Class, lowering: str = "", *, truth: bool = False, bounded: bool = False, name: str = ""
) -> Callable[[Callable], Callable]:
    """Enter a function into the vocabulary; the function itself stays an ordinary one on tensors."""

    def enter(function: Callable) -> Callable:
        parameters = inspect.signature(function).parameters
        required = sum(p.default is inspect.Parameter.empty for p in parameters.values())
        key = name or function.__name__
        if key in REGISTRY:
            raise ValueError(f"primitive {key!r} is defined twice")
        REGISTRY[key] = Primitive(key, group, function, lowering, tuple(parameters), required, truth, bounded)
        return function

    return enter
