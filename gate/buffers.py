"""A workload laid out in the shared block: inputs, outputs and workspaces, in one or several rotating sets.

Several sets together exceed the L2 cache, so that a timed call finds none of its operands there.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import torch

from ..tasks import Task, Workload, draw
from ..templates.launch import TORCH_DTYPES, product_shape, workspace_shapes
from ..templates.signature import Signature
from .arena import Arena, ArenaFull

L2_BYTES = 50 * 2**20
MOST_SETS = 24


@dataclass
class BufferSet:
    """One set: tensors on the referee's side, and their descriptions for the runner."""

    inputs: dict[str, Any]
    outputs: dict[str, torch.Tensor]
    described_inputs: dict[str, Any]
    described_outputs: dict[str, Any]
    bare: torch.Tensor | None = None
    described_bare: Any = None
    workspaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: dict[str, torch.Tensor] = field(default_factory=dict)
    """Outputs that are added to, as they were before; filled by `keep`."""

    def keep(self, accumulated: tuple[str, ...]) -> None:
        """Remember the outputs that are added to, so that `freshen` can restore them."""
        self.kept = {name: self.outputs[name].clone() for name in accumulated}

    def freshen(self) -> None:
        """Content that no call has seen: the largest operand's rows move on, outputs are as before the first call."""
        operands = {n: t for n, t in self.inputs.items() if isinstance(t, torch.Tensor) and n not in self.outputs}
        largest = max(operands.values(), key=lambda t: (t.is_floating_point(), t.numel()))
        rows = largest.shape[0]
        largest.copy_(largest.roll(1 + secrets.randbelow(max(rows - 1, 1)), 0))
        for name, tensor in self.kept.items():
            self.outputs[name].copy_(tensor)
        self.poison()

    def poison(self) -> None:
        """Fill every output that is written, not accumulated, with NaN."""
        for name, tensor in self.outputs.items():
            if name not in self.inputs:
                tensor.fill_(float("nan"))


def place(arena: Arena, task: Task, workload: Workload, sets: int, *, bare: bool = False) -> list[BufferSet]:
    """Draw `sets` different inputs and lay them out with room for outputs. Raises ArenaFull if not even one fits."""
    arena.reset()
    placed: list[BufferSet] = []
    for number in range(sets):
        before = arena.used, len(arena.gaps)
        try:
            placed.append(_one(arena, task, workload.model_copy(update={"seed": workload.seed + 7919 * number}), bare))
        except ArenaFull:
            arena.used = before[0]
            del arena.gaps[before[1] :]
            if not placed:
                raise
            break
    return placed


def sets_wanted(bytes_of_one: int, most: int = 8) -> int:
    """How many sets exceed the L2 cache three times, between 2 and `most`."""
    return max(2, min(most, -(-3 * L2_BYTES // max(bytes_of_one, 1))))


def _one(arena: Arena, task: Task, workload: Workload, bare: bool) -> BufferSet:
    drawn = draw(task, workload, arena.block.device)
    inputs: dict[str, Any] = {}
    described: dict[str, Any] = {}
    for name, value in drawn.items():
        if isinstance(value, torch.Tensor):
            inputs[name], described[name] = arena.take(name, tuple(value.shape), value.dtype)
            inputs[name].copy_(value)
        else:
            inputs[name] = described[name] = value
    outputs, described_outputs = {}, {}
    for name, tensor in task.outputs.items():
        if name in task.accumulates:
            outputs[name], described_outputs[name] = inputs[name], described[name]
        else:
            size, dtype = tensor.size(workload.sizes), TORCH_DTYPES[tensor.dtype or workload.storage]
            outputs[name], described_outputs[name] = arena.take(name, size, dtype)
    result = BufferSet(inputs, outputs, described, described_outputs)
    if bare:
        shape = (task.m.size(workload.sizes), task.n.size(workload.sizes))
        result.bare, result.described_bare = arena.take("the bare product", shape, TORCH_DTYPES[workload.storage])
    return result


def place_bare(task: Task, buffers: BufferSet) -> BufferSet:
    """The set as the bare template sees it: two operands and the bare product."""
    assert buffers.bare is not None
    operands = {"a": task.gemm.a, "b": task.gemm.b}
    return BufferSet(
        inputs={k: buffers.inputs[name] for k, name in operands.items()},
        outputs={"product": buffers.bare},
        described_inputs={k: buffers.described_inputs[name] for k, name in operands.items()},
        described_outputs={"product": buffers.described_bare},
    )


def workspace(arena: Arena, buffers: BufferSet, signature: Signature) -> dict[str, Any]:
    """Partials for one schedule, beside the set; made once a set and schedule."""
    name = f"{signature.symbol}"
    if name not in buffers.workspaces:
        shapes = workspace_shapes(signature, *product_shape(signature, buffers.inputs))
        buffers.workspaces[name] = {
            f: arena.take(f"the workspace {f}", shape, torch.float32)[1] for f, shape in shapes.items()
        }
    return buffers.workspaces[name]
