"""What the registry holds, as plain data and as rich tables for a terminal."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ..tasks import Task, TaskError, shipped_task
from . import plot, store
from .errors import RegistryError
from .load import find, resolve, stale
from .record import Evidence, Measure, Record
from .store import Entry, scan


class Listing(BaseModel):
    """One line of `codasmith kernels list`."""

    model_config = ConfigDict(frozen=True)

    name: str
    task: str
    digest: str
    status: Literal["verified", "stale"]
    note: str
    """Why it is stale."""
    tier: str
    author: str
    storages: tuple[str, ...]
    schedules: int
    tax: float | None
    gpu: str
    date: str
    store: Literal["shipped", "user", "user and shipped"]
    """Where its evidence lies."""


class Description(BaseModel):
    """All that `codasmith kernels show` says."""

    model_config = ConfigDict(frozen=True)

    listing: Listing
    record: Record
    source: str
    path: str
    paths: dict[str, str]
    """By storage dtype, the folder that holds its evidence and objects."""


def list_entries(task: str | None = None) -> list[Listing]:
    """Every readable entry (of one task, or the one that "task/digest" begins), best first within a task.

    Raises UnknownKernel for a name that nobody knows.
    """
    entries, damaged = _scan(task)
    title, _, pin = (task or "").partition("/")
    found = [entry for entry in entries if entry.record.digest.startswith(pin)]
    if task and not found and not damaged and (pin or shipped_task(title) is None):
        find(task)  # which says so
    tasks: dict[str, Task | None] = {}
    return [_listing(entry, tasks) for entry in found]


def problems(task: str | None = None) -> list[str]:
    """A sentence for each damaged entry."""
    return _scan(task)[1]


def _scan(task: str | None) -> tuple[list[Entry], list[str]]:
    title = task and task.partition("/")[0]
    return scan(title) if not title or title.isidentifier() else ([], [])


def describe(name: str) -> Description:
    """One entry, by task or "task/digest". Raises UnknownKernel, or RegistryError where it is damaged."""
    entry = find(name)
    return Description(
        listing=_listing(entry, {}),
        record=entry.record,
        source=entry.source,
        path=str(entry.path),
        paths={storage: str(path) for storage, path in entry.folders.items()},
    )


def _listing(entry: Entry, tasks: dict[str, Task | None]) -> Listing:
    record = entry.record
    if record.task not in tasks:
        try:
            tasks[record.task] = resolve(record.task)[0]
        except (RegistryError, TaskError):
            tasks[record.task] = None
    task = tasks[record.task]
    note = stale(entry, task) if task else f"{entry.name} answers a task that is no longer there"
    newest = max(record.evidence, key=lambda e: e.date)
    return Listing(
        name=entry.name,
        task=record.task,
        digest=record.digest,
        status="stale" if note else "verified",
        note=note,
        tier=record.tier,
        author=record.author.name,
        storages=record.storages,
        schedules=len({o.schedule for o in record.objects}),
        tax=record.tax,
        gpu=newest.environment.get("gpu", ""),
        date=newest.date,
        store=_store(entry),
    )


def _store(entry: Entry) -> Literal["shipped", "user", "user and shipped"]:
    shipped = {path.is_relative_to(store.SHIPPED) for path in entry.folders.values()}
    return "user and shipped" if len(shipped) == 2 else "shipped" if shipped == {True} else "user"


def render_list(listings: list[Listing]) -> RenderableType:
    """The table of `codasmith kernels list`."""
    if not listings:
        return Text("No kernel was admitted yet; `codasmith run TASK` makes one.")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("kernel", "tax", "tier", "dtypes", "author", "GPU", "store"):
        table.add_column(
            title, justify="right" if title == "tax" else "left", overflow="fold", no_wrap=title in ("kernel", "tax")
        )
    for row in listings:
        table.add_row(
            row.name,
            f"{row.tax:.3f}" if row.tax is not None else "-",
            row.tier,
            " ".join(row.storages),
            escape(row.author),
            escape(row.gpu),
            row.store if row.status == "verified" else f"{row.store}, {row.status}",
        )
    return table


def render(description: Description) -> RenderableType:
    """The page of `codasmith kernels show`: source, summary, and a table of times for each storage dtype."""
    record, listing = description.record, description.listing
    facts = Table.grid(padding=(0, 2))
    for key, value in _facts(description):
        facts.add_row(Text(key, style="bold"), Text(value, overflow="fold"))
    parts: list[RenderableType] = [
        facts,
        Text(""),
        Syntax(description.source.strip(), "python", background_color="default", word_wrap=True),
    ]
    for evidence in record.evidence:
        parts += [Text(""), _times(evidence)]
        if (bars := plot.in_terminal(evidence)) is not None:
            parts += [Text(""), bars]
    if listing.note:
        parts.append(Text(f"\n{listing.note}", style="yellow"))
    return Group(*parts)


def _facts(description: Description) -> list[tuple[str, str]]:
    record = description.record
    author = record.author
    facts = [
        ("kernel", description.listing.name),
        ("author", author.name + (f", prompt {author.prompt_digest[:12]}" if author.prompt_digest else "")),
        ("tier", record.tier),
        ("domain", record.domain),
        ("numerics", record.numerics.bound),
        ("sums", record.numerics.accumulation),
        ("fp8 sums", "of 128 terms each in the tensor core's own 14 bits" * ("fp8" in record.storages)),
        (
            "repeatable",
            {None: "not looked at", True: "same bits in every run", False: "no"}[record.numerics.deterministic],
        ),
        ("objects", ", ".join(o.file for o in record.objects)),
        *(("kept in", folder) for folder in dict.fromkeys(description.paths.values())),
    ]
    for evidence in record.evidence:
        where = ", ".join(f"{k} {v}" for k, v in evidence.environment.items())
        facts.append((f"verified {evidence.storage}", f"{evidence.date}: {where}"))
    return [(k, v) for k, v in facts if v]


def _times(evidence: Evidence) -> Table:
    table = Table(
        box=None, header_style="bold", pad_edge=False, title=f"{evidence.storage}, the best schedule of each shape"
    )
    table.title_justify = "left"
    for title in ("workload", "schedule", "ms", "tax", "x eager", "x compile", "roofline"):
        words = title in ("workload", "schedule")
        table.add_column(title, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in evidence.workloads:
        best = next((b.schedule for b in evidence.best if b.sizes == row.workload.sizes), None)
        timings = [t for t in row.timings if t.schedule == best] or list(row.timings[:1])
        for t in timings:
            cells = (t.milliseconds, t.tax, t.over_eager, t.over_compile, t.sol)
            table.add_row(row.workload.label, t.schedule, *(_cell(c) for c in cells))
    return table


def _cell(measure: Measure | None) -> str:
    return "-" if measure is None else f"{measure.value:.3f}"
