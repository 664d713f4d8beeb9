"""The command that makes a run again, from what it was asked."""

from __future__ import annotations

import shlex

from .evalset import PUBLIC
from .run_folder import RunSpec

OPTIONS = {
    "attempts": "--budget",
    "samples": "--samples",
    "tokens": "--tokens",
    "dollars": "--dollars",
    "minutes": "--minutes",
    "target_tax": "--target-tax",
    "shapes": "--shapes",
}
"""Fields of a run and their options; one that is None was not given."""

SPEED = ("target_tax", "shapes")
"""Without meaning where nothing is timed."""


def command_of(spec: RunSpec) -> str:
    """Such as "codasmith eval --model command:./agent --samples 4 --budget 20". Options of models stand in run.json."""
    words = ["codasmith", "eval"]
    for model in spec.models:
        words += ["--model", model]
    for field, option in OPTIONS.items():
        value = getattr(spec, field) if field not in SPEED or not spec.cpu_only else None
        words += [option, f"{value:g}" if isinstance(value, float) else str(value)] if value is not None else []
    words += ["--set", spec.set] if spec.set != PUBLIC else []
    words += [word for name in spec.tasks or () for word in ("--task", name)]
    words += [word for tier in spec.tiers if spec.tiers != ("closed",) for word in ("--tier", tier)]
    words += ["--storage", spec.storage] if spec.storage != "bf16" else []
    return shlex.join([*words, *(["--cpu-only"] if spec.cpu_only else [])])
