"""Arithmetic of constants, done once where the graph is built instead of in every lane.

Only operations that IEEE 754 rounds exactly, so that a graph's digest is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .node import GraphError

FLOAT32_MAX = 3.4028234663852886e38

_EXACT: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda x: -x,
    "abs": abs,
    "sqrt": math.sqrt,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


def fold(op: str, values: list[float]) -> float | None:
    """The constant that op gives on constants; None where it stays an operation.

    Raises GraphError where that is no finite number.
    """
    function = _EXACT.get(op)
    if function is None or len(values) != (2 if op in ("add", "sub", "mul", "div") else 1):
        return None
    try:
        result = function(*values)
    except (ArithmeticError, ValueError):
        result = math.nan
    if not abs(result) <= FLOAT32_MAX:
        shown = ", ".join(f"{v:g}" for v in values)
        raise GraphError(f"{op} of {shown} is not a finite float32 number.", "Change the constants.", "bad-constant")
    return result
