"""What a kernel is measured against: cuBLAS alone, the reference as it is, and torch.compile of it.

Compiling the reference takes most of a judgement's time, so what torch.compile took is kept by environment, as a
ratio to cuBLAS.  It is used again only where the eager reference, measured anew each time, still stands to cuBLAS
as it did then, and never more than REUSED times in a row.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..tasks import Task, Workload
from ..tasks.quantise import FP8, by_scaled_mm, one
from .buffers import BareSet, BufferSet
from .stopwatch import Replay

REUSED = 8
DRIFT = 0.02
"""How far the eager reference's ratio to cuBLAS may be from the kept one."""


def product(task: Task, bare: BareSet) -> None:
    """The bare product of a task by cuBLAS."""
    a, b, out = bare.inputs["a"], bare.inputs["b"], bare.outputs["product"]
    left, right = a.t() if task.gemm.a_transposed else a, b.t() if task.gemm.b_transposed else b
    if a.dtype == FP8:
        torch._scaled_mm(left, right, one(a.device), one(a.device), out_dtype=out.dtype, out=out)
    else:
        torch.matmul(left, right, out=out)


def cublas(task: Task, sets: list[BareSet]) -> Replay:
    return recorded([partial(product, task, s) for s in sets])


def eager(task: Task, sets: list[BufferSet]) -> Replay:
    """The reference; each product of fp8 operands in it by cuBLAS too, through torch._scaled_mm."""
    return recorded([partial(by_scaled_mm(task.reference, s.inputs), **s.inputs) for s in sets])


def compiled(task: Task, sets: list[BufferSet]) -> Replay:
    """torch.compile of the reference with static shapes. Raises whatever the compiler raises.

    It raises too where the compiler would go back to the reference as it is, without a word, and be timed as such; and
    where it would cut a reference on fp8 operands into pieces, for it may be our way to multiply them that it cannot
    trace, and what users compile would be faster.
    """
    torch._dynamo.reset()
    strict = torch._dynamo.config.patch(fail_on_recompile_limit_hit=True)
    with warnings.catch_warnings(), strict:
        warnings.simplefilter("ignore")
        reference = by_scaled_mm(task.reference, sets[0].inputs)
        function = torch.compile(reference, dynamic=False, fullgraph=reference is not task.reference)
        return recorded([partial(function, **s.inputs) for s in sets])


def recall(folder: Path, environment: dict[str, str], task: Task, workload: Workload) -> dict[str, Any]:
    """What this environment kept of a workload: times over cuBLAS's, by baseline. Empty where there is nothing."""
    try:
        found = json.loads(_file(folder, environment, task, workload).read_text())
        ratios = {k: {n: float(v[n]) for n in ("value", "low", "high")} for k, v in found["over_cublas"].items()}
        return {"over_cublas": ratios, "uses": int(found["uses"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def keep(
    folder: Path,
    environment: dict[str, str],
    task: Task,
    workload: Workload,
    over_cublas: dict[str, dict[str, float]],
    uses: int = 0,
) -> None:
    """Keep times over cuBLAS's: ratios, for absolute times move with the board's power."""
    path = _file(folder, environment, task, workload)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps({"task": task.name, "workload": workload.label, "uses": uses,
                                    "over_cublas": over_cublas}))  # fmt: skip
        part.replace(path)
    except OSError:
        return  # it is measured again next time


def _file(folder: Path, environment: dict[str, str], task: Task, workload: Workload) -> Path:
    text = json.dumps([environment, task.digest, workload.model_dump(mode="json")], sort_keys=True)
    return folder / "baselines" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def recorded(calls: list[Callable[[], Any]]) -> Replay:
    """Record the calls as one CUDA graph and return what replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(2):
            for call in calls:
                call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        kept = [call() for call in calls]

    nothing = torch.zeros(1, device="cuda")

    def replay(times: int) -> None:
        _ = kept
        if not times:
            nothing.zero_()
        for _ in range(times):
            graph.replay()
        torch.cuda.synchronize()

    return replay
