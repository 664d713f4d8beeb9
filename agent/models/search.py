"""The built-in search: the tracer's answer, then the same with rewrites that are known to matter. No network, no model.

It is an ordinary model.  What it is shown first in a conversation is what the strategy builds on; it proposes that
with one rewrite more or one less, and never the same twice.  The first proposal after the tracer's own answer has all
of them, so that each rewrite that fails or slows a kernel down costs one attempt to find, and one that helps none; the
second leaves out the one that the gate may refuse for its precision.
Schedules are no part of it: the gate races them for each candidate.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...primitives import Graph, to_source
from .cheaper_activations import no_division, select_to_extremum, sigmoid_by_tanh
from .cheaper_arithmetic import (
    fused_products,
    narrow_factors_first,
    narrow_summands_first,
    scale_and_shift,
    shared_products,
)
from .model import Answer, Message, ModelError, OnText, Usage
from .tracer import trace

if TYPE_CHECKING:
    from ...tasks import Task

Rewrite = Callable[[Graph], "Graph | None"]

REWRITES: dict[str, Rewrite] = {
    f.__name__: f
    for f in (
        no_division,
        sigmoid_by_tanh,
        select_to_extremum,
        shared_products,
        fused_products,
        scale_and_shift,
        narrow_factors_first,
        narrow_summands_first,
    )
}
"""In the order in which they are applied: what one makes, a later one may improve."""

EXACT = tuple(name for name in REWRITES if name != sigmoid_by_tanh.__name__)
"""Those that keep the precision of the primitives; the other one is changed last."""

FREE = 1.0
"""A tax that no rewrite can better: the epilogue hides behind the multiplication."""

_SAYS = re.compile(r"rewritten: ([a-z_, ]+)\.")
_TAX = re.compile(r"^Its tax is (\d+\.\d+)", re.MULTILINE)

Names = tuple[str, ...]


class BuiltinSearch:
    """`builtin:search`. Its answers follow from the task, from what it is shown, and from what it said before."""

    name = "builtin:search"
    gives_up_after = len(REWRITES) + 2

    def __init__(self) -> None:
        self._task: Task | None = None
        self._traced: Graph | None = None
        self._seen: set[str] = set()
        self._before: list[Names] = []

    def prepare(self, task: Task) -> None:
        """Take the task that the next answers are for."""
        self._task, self._traced, self._seen, self._before = task, None, set(), []

    def recall(self, answers: Sequence[str]) -> None:
        """Know what it said before the run was stopped, so as not to say it again."""
        self._before = [_names(text) for text in answers]

    def answer(self, messages: Sequence[Message], *, max_tokens: int, on_text: OnText | None = None) -> Answer:
        """The next proposal, in a fenced block.

        Raises ModelError where no task was given, where the tracer cannot translate it, and, of the kind
        "finished", where nothing is left to try.
        """
        if self._task is None:
            raise ModelError("builtin:search was given no task; call prepare(task) before asking it", "bad-request")
        began = time.monotonic()
        base, tax = _shown(messages)
        if tax is not None and tax <= FREE:
            raise ModelError(f"the tax is {tax:.3f}, which no rewrite of the epilogue can better", "finished")
        graph, names = self._next(base)
        self._seen.add(graph.digest)
        says = f'"""The reference, translated and rewritten: {", ".join(names)}."""\n\n' if names else ""
        text = f"```python\n{says}{to_source(graph, self._task.name).rstrip()}\n```\n"
        if on_text is not None:
            on_text(text)
        return Answer(text=text, usage=Usage(dollars=0.0), model=self.name, seconds=time.monotonic() - began)

    def _next(self, base: Names) -> tuple[Graph, Names]:
        self._seen.update(self._rewritten(names).digest for names in self._before)
        for names in _neighbours(base):
            graph = self._rewritten(names)
            if graph.digest not in self._seen:
                return graph, tuple(n for n in names if self._changes(n, names))
        tried = [n for n in REWRITES if self._changes(n, tuple(REWRITES))]
        what = f"tried what its rewrites make of it ({', '.join(tried)})" if tried else "no rewrite that changes it"
        raise ModelError(f"builtin:search has {what}, and has no further idea", "finished")

    def _rewritten(self, names: Names) -> Graph:
        """The traced graph with these rewrites, each where it finds something to change."""
        if self._traced is None:
            assert self._task is not None
            self._traced = trace(self._task)
        graph = self._traced
        for name, rewrite in REWRITES.items():
            if name in names:
                graph = rewrite(graph) or graph
        return graph

    def _changes(self, name: str, names: Names) -> bool:
        """Whether a rewrite makes a difference among these."""
        return self._rewritten(names).digest != self._rewritten(tuple(n for n in names if n != name)).digest


def _neighbours(base: Names) -> Iterator[Names]:
    """What to propose, in order: the reference as it stands, all rewrites, all exact ones, then the base with one more
    or one less."""
    yield ()
    yield tuple(REWRITES)
    yield EXACT
    for name in sorted(REWRITES, key=lambda name: name not in EXACT):
        yield tuple(n for n in REWRITES if (n in base) != (n == name))


def _shown(messages: Sequence[Message]) -> tuple[Names, float | None]:
    """The rewrites of the answer that the conversation builds on, and its tax where it was timed."""
    at = next((i for i, m in enumerate(messages) if m.role == "assistant"), None)
    if at is None:
        return (), None
    told = _TAX.search(messages[at + 1].content) if at + 1 < len(messages) else None
    return _names(messages[at].content), float(told[1]) if told else None


def _names(text: str) -> Names:
    said = _SAYS.search(text)
    return tuple(n for n in REWRITES if n in said[1].split(", ")) if said else ()
