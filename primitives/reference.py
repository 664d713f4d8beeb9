"""The vocabulary as a page: what a model, or a person, may write in an epilogue."""

from __future__ import annotations

import inspect
import re

from .primitive import REGISTRY, Class, Primitive

# Group -> (heading, the lowest level of task that needs it).
_GROUPS: dict[Class, tuple[str, int]] = {
    "values": ("Values (one element at a time; cost: instructions, no bytes)", 1),
    "coordinates": ("Coordinates (where an element stands; no bytes moved)", 2),
    "pairs": ("Pairs of adjacent columns (no bytes moved)", 2),
    "heads": ("Heads: groups of columns, known before anything is stored (no bytes moved)", 3),
    "reductions": ("Reductions (only as returned values; 4 bytes a row or column, and tile)", 3),
    "stateful": ("Stateful accumulation (only as returned values)", 3),
}
_WRITTEN = {
    **{"add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "neg": "-x"},
    **{"lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b", "eq": "a == b", "ne": "a != b"},
    **{"logical_and": "a & b", "logical_or": "a | b"},
}


def render_reference(level: int | None = None) -> str:
    """The primitives that tasks of a level need, a line each, grouped; all of them without a level."""
    parts = []
    for group, (heading, lowest) in _GROUPS.items():
        if level is not None and level < lowest:
            continue
        lines = [heading]
        members = [p for p in REGISTRY.values() if p.group == group]
        operators = [_WRITTEN[p.name] for p in members if p.name in _WRITTEN]
        if operators:
            lines.append(
                f"- operators: {'  '.join(f'`{o}`' for o in operators)}  `x ** n` (n = 2, 3, 4, 0.5, -0.5, -1)"
            )
        lines += [_line(p) for p in members if p.name not in _WRITTEN]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _line(primitive: Primitive) -> str:
    parameters = inspect.signature(primitive.torch).parameters.values()
    shown = ", ".join(p.name if p.default is p.empty else f"[{p.name}]" for p in parameters)
    doc = re.sub(r"\s+", " ", primitive.doc)
    return f"- `{primitive.name}({shown})`: {doc}"
