"""Loading: a name becomes an operator, with the best verified kernels behind it."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from ..tasks import ProgramTask, Task, TaskError, load_task, shipped, shipped_task
from ..tasks.load import plain_task
from ..tasks.scaled import why_not
from ..templates import ABI
from .errors import RegistryError, UnknownKernel, warn
from .operator import Operator, register
from .runner import Runner
from .store import TASK, Entry, scan
from .twin import SUFFIX, Twin, pair


def load(name: str | Path | Task, strict: bool = False, *, batch_invariant: bool = False) -> Operator:
    """The operator for a task, a callable like the task's reference.

    name: a task of the catalogue or of the user's store, such as "rmsnorm_swiglu"; one of its entries,
        "rmsnorm_swiglu/1a2b3c4d"; a task file; or a Task.
    strict: raise OutsideDomain for what no kernel can take, instead of running the reference and saying so once.
    batch_invariant: one schedule for all shapes, so that a row's bits do not depend on how many rows there are;
        raises OutsideDomain like strict, as the reference promises no such thing.

    The gradient is the reference's, recomputed; of a program whose `_bwd` twin has kernels, that twin's.  Call once
    before capturing a CUDA graph: the first call loads the kernel.  Raises UnknownKernel for a name that nobody knows,
    RegistryError where `strict` and no kernel of the task was admitted.
    """
    task, pin = resolve(name)
    entries, missing = usable(task, pin)
    if pin and not entries:
        raise UnknownKernel(f"{missing}; `codasmith kernels list` shows what there is")
    if not entries:
        if strict or batch_invariant:
            raise RegistryError(f"{missing}; without {'strict' if strict else 'batch_invariant'} the reference runs")
        warn(f"{missing}; the operator runs the reference")
    runner = Runner(task, tuple(entries), strict=strict, batch_invariant=batch_invariant, missing=missing)
    runner.twin = _twin(task, strict, batch_invariant) if entries else None
    variant = f"_{pin}" * bool(pin) + "_strict" * strict + "_batch_invariant" * batch_invariant
    operator = register(task, runner, variant)
    operator.name = f"{task.name}/{pin}" if pin else _name(task)
    return operator


def _name(task: Task) -> str:
    """By which `load` finds the task again, in another process too."""
    return task.name if shipped_task(task.name) is task else f"{task.path}:{task.name}"


def _twin(task: Task, strict: bool, batch_invariant: bool) -> Twin | None:
    """The backward program of a program, where kernels of it were admitted."""
    if not isinstance(task, ProgramTask):
        return None
    name = task.name + SUFFIX
    if shipped_task(task.name) is task:
        back = shipped_task(name)
    else:
        try:
            back = load_task(f"{task.path}:{name}")
        except TaskError:
            back = None
    if back is None or not usable(back)[0]:
        return None
    return pair(task, load(back, strict, batch_invariant=batch_invariant))


def usable(task: Task, pin: str = "") -> tuple[list[Entry], str]:
    """The entries that answer this very task, best first; and why there are none. Warns of damaged ones."""
    entries, problems = scan(task.name)
    for problem in problems:
        warn(f"skipped an entry: {problem}")
    good = [e for e in entries if e.record.digest.startswith(pin) and not stale(e, task)]
    if good:
        return good, ""
    reasons = [r for e in entries if (r := stale(e, task))]
    return [], reasons[0] if reasons else f"no admitted kernel answers {task.name}{'/' * bool(pin)}{pin}"


def stale(entry: Entry, task: Task) -> str:
    """Why an intact entry no longer counts; empty if it does."""
    record = entry.record
    if record.task_digest != task.digest:
        return f"{entry.name} answers an earlier version of {task.name}; verify its kernel against this one"
    if record.abi != ABI:
        return f"{entry.name} was compiled for template ABI {record.abi}, and this is {ABI}; verify the kernel again"
    return ""


def resolve(name: str | Path | Task) -> tuple[Task, str]:
    """The task, and the entry's digest (or its beginning) where the name has one."""
    if isinstance(name, Task):
        return name, ""
    text = os.fspath(name)
    if text.endswith(".py") or ".py:" in text:
        return load_task(text), ""
    title, _, pin = text.partition("/")
    own = shipped_task(title)
    if own is not None:
        return own, pin
    entries, problems = scan(title) if title.isidentifier() else ([], [])
    for entry in entries:
        try:
            task = load_task(f"{entry.path / TASK}:{title}")
        except TaskError as error:
            problems.append(str(error))
            continue
        if not stale(entry, task):
            return task, pin
    if problems:
        raise RegistryError(problems[0])
    raise UnknownKernel(_unknown(title or text))


def find(name: str) -> Entry:
    """One entry: the best of a task, or the one that "task/digest" begins. Raises UnknownKernel or RegistryError."""
    title, _, pin = str(name).partition("/")
    entries, problems = scan(title) if title.isidentifier() else ([], [])
    found = [e for e in entries if e.record.digest.startswith(pin)]
    if found:
        return found[0]
    if problems:
        raise RegistryError(problems[0])
    if entries:
        raise UnknownKernel(f"{title} has no entry {pin!r}; it has {', '.join(e.name for e in entries)}")
    if shipped_task(title):
        raise UnknownKernel(f"no kernel of {title} was admitted yet; `codasmith run {title}` makes one")
    raise UnknownKernel(_unknown(title or str(name)))


def _unknown(title: str) -> str:
    if base := plain_task(title):
        return f"nothing is called {title!r}: {why_not(base)}"
    known = sorted({*shipped(), *(e.record.task for e in scan()[0])})
    near = difflib.get_close_matches(title, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "the names: codasmith kernels list"
    return f"nothing is called {title!r}; {hint}"
