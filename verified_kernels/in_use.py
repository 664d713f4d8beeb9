"""Which kernels this process has run: what a measurement of a whole model must say beside its figures."""

from __future__ import annotations

from .operator import _registered


def kernels_in_use() -> dict[str, list[str]]:
    """By operator, the kernels that its calls were given: entry, schedules, and the first digits of each object's
    sha256 (of a program, of all its objects together). Operators that ran their reference alone are left out."""
    found = {}
    for name, (_, runner) in sorted(_registered.items()):
        chosen = {plan.chosen for plan in list(runner._plans.values()) if plan.launch is not None}
        objects = {digest[:12] for (digest, _), kernel in runner._kernels.items() if not isinstance(kernel, str)}
        if chosen:
            found[name] = [*sorted(chosen), f"objects {', '.join(sorted(objects))}"]
    return found
