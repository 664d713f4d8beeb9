"""The evals: models scored on a pinned set of tasks, so that a careful reader believes the ranking.

`evalset` pins the tasks by digest; `compose` and `generate` make held-out ones from a seed; `runs` asks the models
and keeps one row a sample; `scores` turns rows into numbers with intervals, and is pure; `table` and `page` show
them.  `environment` is the same set for training.  `attacks/` tries to cheat the gate.

    from codasmith.evals import score
    results = score(["anthropic:NAME", "openai:NAME"], samples=4)

Depends on everything below it; nothing below depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runs import score

__all__ = ["score"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # the command line starts without torch
        from . import runs

        return getattr(runs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
