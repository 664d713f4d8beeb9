"""The agent: prompt, model, gate, feedback, until a kernel is admitted or the budget is spent.

`loop` is the whole of it and reads in one sitting; `strategies/` choose what the next question builds on;
`campaign` gives it a task, a model, the gate and a journal; `models/` answer conversations; `replay`,
`campaign_view` and `journal_page` look back at a journal; `cli` is the command line.  Whatever happens is an
event in an append-only journal, and the state of a run is computed from those events alone, so that a run
that was killed continues where it was.

    from codasmith.agent import run
    result = run("my_task.py", "builtin:tracer")

Depends on everything below it (`verified_kernels`, `gate`, `tasks`, `primitives`), and imports them when
a command needs them, so that the command line starts quickly.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .campaign import resume, run

__all__ = ["resume", "run"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import campaign

        return getattr(campaign, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
