"""What a kernel is measured against: cuBLAS alone, the reference as it is, and torch.compile of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..tasks import Task
from .buffers import BufferSet
from .stopwatch import Replay


def product(task: Task, inputs: dict[str, Any], out: torch.Tensor | None) -> None:
    a, b = inputs[task.gemm.a], inputs[task.gemm.b]
    torch.matmul(a.t() if task.gemm.a_transposed else a, b.t() if task.gemm.b_transposed else b, out=out)


def cublas(task: Task, sets: list[BufferSet]) -> Replay:
    return recorded([partial(product, task, s.inputs, s.bare) for s in sets])


def eager(task: Task, sets: list[BufferSet]) -> Replay:
    return recorded([partial(task.reference, **s.inputs) for s in sets])


def compiled(task: Task, sets: list[BufferSet]) -> Replay:
    """torch.compile of the reference with static shapes. Raises whatever the compiler raises."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = torch.compile(task.reference, dynamic=False)
        return recorded([partial(function, **s.inputs) for s in sets])


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

    def replay(times: int) -> None:
        _ = kept
        for _ in range(times):
            graph.replay()
        torch.cuda.synchronize()

    return replay
