"""What Inductor must know of operators before it meets them.

PyTorch 2.11 writes a log line, shown or not, where an operator without a lowering first occurs in a graph: its
arguments with all that they were computed from, each of them as often as it is reached.  An operator that first occurs
after eight layers of others takes minutes, and with every layer several times as long.  One that has its fallback
beforehand is not written about.  Later releases make the line when it is read.
"""

from __future__ import annotations

from typing import Any

_waiting: list[Any] = []


def announce(overload: Any) -> None:
    """Remember an operator; Inductor is not imported for it."""
    _waiting.append(overload)


def prepare() -> None:
    """Give the operators announced since the last call the fallbacks that Inductor would give them one by one."""
    if not _waiting:
        return
    found, _waiting[:] = tuple(_waiting), []
    try:
        from torch._inductor import graph, lowering

        for overload in found:
            if overload not in lowering.lowerings:
                tag = graph.get_layout_constraint_tag(overload, with_default=True)
                constraint = lowering.tag_to_layout_constraint(tag)
                lowering.make_fallback(overload, layout_constraint=constraint, warn=False, override_decomp=True)
    except (ImportError, AttributeError, TypeError):
        return  # another release: its graphs are right without this
