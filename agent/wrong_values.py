"""Where an output is wrong and by how much, in lines: what the gate's details of it say."""

from __future__ import annotations

from typing import Any

from .rendering import one_line

KNOWN = (
    *("output", "elements", "wrong", "share", "worst", "max_error", "max_relative", "pattern", "schedule", "family"),
    *("kernel_max", "kernel_rms", "unfused_max", "unfused_rms", "bound_max", "bound_rms", "scale_max", "scale_rms"),
    *("misplaced", "unequal", "workload"),
)
"""The details that the lines tell of."""


def wrong_values(details: dict[str, Any], message: str) -> list[str]:
    """How many elements, the worst of them, the pattern, and the errors against what is allowed.

    message: the finding's own; what it says already is left out.
    """
    lines = []
    if (pattern := details.get("pattern")) and str(pattern) not in message:
        lines.append(f"pattern: {pattern}")
    wrong, elements = details.get("wrong"), details.get("elements")
    if isinstance(wrong, int) and isinstance(elements, int) and elements:
        lines.append(f"wrong are {wrong:,} of {elements:,} elements ({100 * wrong / elements:.3g} %)")
    worst = details.get("worst")
    if isinstance(worst, dict) and {"index", "value", "expected"} <= worst.keys():
        place = ", ".join(map(str, worst["index"]))
        lines.append(f"the worst is [{place}]: {_short(worst['value'])}, where {_short(worst['expected'])} is right")
    for kind, words in (("max", "largest error"), ("rms", "root mean square of the error")):
        if f"kernel_{kind}" in details and f"bound_{kind}" in details:
            line = f"{words} {_short(details[f'kernel_{kind}'])}, allowed {_short(details[f'bound_{kind}'])}"
            lines.append(f"{line}; the unfused path's own {_short(details.get(f'unfused_{kind}'))}")
    if details.get("misplaced"):
        lines.append(
            f"{details['misplaced']:,} elements are NaN or infinite where the reference is not, or the reverse"
        )
    if details.get("unequal"):
        lines.append(f"{details['unequal']:,} elements differ where the result is exact")
    where, workload = details.get("workload"), details.get("workload")
    if isinstance(workload, dict):
        sizes = " ".join(f"{symbol}{size}" for symbol, size in workload.get("sizes", {}).items())
        where = f"{sizes} {workload.get('storage', '')}".strip()
    if where:
        family = family_of(details)
        seen = f"seen on {where}" + (f", inputs of the family {family}" if family else "")
        lines.append(seen + (f", schedule {details['schedule']}" if details.get("schedule") else ""))
    return [one_line(line, 300) for line in lines]


def family_of(details: dict[str, Any]) -> str:
    """The family of inputs on which it was seen; "" where the details do not say."""
    workload = details.get("workload")
    found = workload.get("family") if isinstance(workload, dict) else details.get("family")
    return str(found or "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
