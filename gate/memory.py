"""Too little memory for a workload: the machine's failure, never the candidate's, said in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..tasks import Task, Workload
from ..tasks.tensor import DTYPES
from .arena import ArenaFull

GIB = 2**30


class TooLittleMemory(RuntimeError):
    """This machine cannot hold what a workload needs. Whoever judges gives no verdict then."""


@contextmanager
def enough_memory(task: Task, workload: Workload) -> Iterator[None]:
    """Raises TooLittleMemory, with the workload and how much it needs, where GPU or shared block have less.

    Only what is allocated in this process counts: what the runner lacks, it says itself.
    """
    try:
        yield
    except ArenaFull as error:
        found = f"they do not fit into what the gate set aside ({error}); free the GPU, or name smaller sizes"
        raise TooLittleMemory(f"{_needs(task, workload)} for its tensors, and {found}") from error
    except torch.OutOfMemoryError as error:
        tried = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
        asked = f"another {tried[1] if tried else 'block'} for the work beside them could not be had{_left()}"
        raise TooLittleMemory(
            f"{_needs(task, workload)} for its tensors, and {asked}; free the GPU, or name smaller sizes"
        ) from error


def _needs(task: Task, workload: Workload) -> str:
    size = sum(
        torch.Size(t.size(workload.sizes)).numel() * DTYPES[task.dtype_of(name, workload.storage)].itemsize
        for name, t in task.everything.items()
        if t.dimensions
    )
    return f"{task.name} at {workload.label} needs {size / GIB:.1f} GiB"


def _left() -> str:
    if not torch.cuda.is_available():
        return ""
    free, total = torch.cuda.mem_get_info()
    return f" where {free / GIB:.1f} GiB of {total / GIB:.0f} GiB were free"
