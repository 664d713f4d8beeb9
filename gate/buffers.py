"""A workload laid out in the shared block: inputs, outputs and workspaces, in one or several rotating sets.

Several sets together exceed the L2 cache, so that a timed call finds none of its operands there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..tasks import Task, Workload, draw
from ..tasks.tensor import beside
from ..templates.launch import TORCH_DTYPES, product_shape, workspace_shapes
from ..templates.signature import Signature
from .arena import Arena, ArenaFull, room
from .job import Object

L2_BYTES = 50 * 2**20
MOST_SETS = 48
RESERVE = 8
"""One part in so many of the shared block is kept free of sets at least, for the workspaces of reductions."""


@dataclass
class BareSet:
    """A bare product's operands "a" and "b" and its result "product", with their descriptions."""

    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]
    described: dict[str, Any]
    workspaces: dict[str, dict[str, Any]] = field(default_factory=dict)  # it has none

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return {**self.inputs, **self.outputs}


@dataclass
class BufferSet:
    """One set: tensors on the referee's side, and their descriptions for the runner."""

    inputs: dict[str, Any]
    outputs: dict[str, torch.Tensor]
    described_inputs: dict[str, Any]
    described_outputs: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)
    between: dict[str, torch.Tensor] = field(default_factory=dict)
    """What passes between the stages of a program."""
    described_between: dict[str, Any] = field(default_factory=dict)
    bare: dict[str, BareSet] = field(default_factory=dict)
    """By stage, the operands and the result of the bare product."""
    workspaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: dict[str, torch.Tensor] = field(default_factory=dict)
    """Outputs that are added to, as they were before; filled by `keep`."""
    moving: tuple[str, ...] = ()
    """The inputs that are multiplied: `freshen` moves them."""
    moved: dict[str, int] = field(default_factory=dict)
    """By how many elements each has been moved since it was drawn."""
    redraw: Callable[[], dict[str, Any]] = dict
    """Draws the inputs again, outside the shared block."""

    @property
    def tensors(self) -> dict[str, Any]:
        """All by name."""
        return {**self.inputs, **self.between, **self.outputs}

    @property
    def described(self) -> dict[str, Any]:
        return {**self.described_inputs, **self.described_between, **self.described_outputs}

    def keep(self, accumulated: tuple[str, ...]) -> None:
        """Remember the outputs that are added to, so that `freshen` can restore them."""
        self.kept = {name: self.outputs[name].clone() for name in accumulated}

    def freshen(self) -> None:
        """Content that no call has seen: what is multiplied moves on, outputs are as before the first call.

        Every element moves by the same number of places, from row to row too, so that no element of the product is
        one that stood there, or elsewhere, before.
        """
        for name in self.moving:
            flat = bits(self.inputs[name])
            by = _places(flat.numel(), self.inputs[name].shape[-1], self.moved.get(name, 0))
            flat.copy_(flat.roll(by))
            self.moved[name] = (self.moved.get(name, 0) + by) % flat.numel()
        for name, tensor in self.kept.items():
            self.outputs[name].copy_(tensor)
        self.poison()

    def drawn(self, moved: dict[str, int] | None = None) -> dict[str, Any]:
        """The inputs as they must be, whatever a kernel has written where they lie.

        moved: as `moved` was at the time in question; now, by default.
        """
        inputs = self.redraw()
        for name, by in (self.moved if moved is None else moved).items():
            shape, dtype = inputs[name].shape, inputs[name].dtype
            inputs[name] = bits(inputs[name].contiguous()).roll(by).view(dtype).view(shape)
        return inputs

    def poison(self) -> None:
        """Fill everything that is written, not accumulated, with NaN."""
        for name, tensor in (self.between | self.outputs).items():
            if name not in self.inputs:
                tensor.fill_(float("nan"))


def _places(count: int, row: int, moved: int) -> int:
    """By how many places to move: not by whole rows, since the last time or since they were drawn, where that can be;
    else the product would have the same elements elsewhere."""
    for _ in range(64):
        by = 1 + secrets.randbelow(max(count - 1, 1))
        if by % row and (moved + by) % row:
            break
    return by


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's elements in a row, as whole numbers: what can be done with those can be done with any."""
    return tensor.view(-1).view(_WHOLE[tensor.dtype.itemsize])


def place(
    arena: Arena, task: Task, workload: Workload, sets: int, *, bare: bool = False, scratch: int = 0
) -> list[BufferSet]:
    """Draw `sets` different inputs and lay them out with room for outputs, fewer where there is no room for all.

    scratch: bytes that workspaces will take beside each set (see `partials`). Raises ArenaFull if not even one fits.
    Scalars are the first set's in all: torch.compile compiles anew for each value, and gives up after a few.
    """
    arena.reset()
    placed: list[BufferSet] = []
    scalars: dict[str, Any] = {}
    for number in range(sets):
        before = arena.used, len(arena.gaps)
        seeded = workload.model_copy(update={"seed": workload.seed + 7919 * number})
        try:
            one = _one(arena, task, seeded, bare, scalars)
            scalars = {n: v for n, v in one.inputs.items() if not isinstance(v, torch.Tensor)}
            reserve = arena.block.numel() // RESERVE if placed else 0
            if arena.left < max(reserve, (number + 1) * scratch):
                raise ArenaFull("what is left is for the workspaces")
            placed.append(one)
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


def _one(arena: Arena, task: Task, workload: Workload, bare: bool, scalars: dict[str, Any]) -> BufferSet:
    def redraw() -> dict[str, Any]:
        return {**draw(task, workload, arena.block.device), **scalars}

    drawn = redraw()
    inputs: dict[str, Any] = {}
    described: dict[str, Any] = {}
    for name, value in drawn.items():
        if isinstance(value, torch.Tensor):
            inputs[name], described[name] = arena.take(name, tuple(value.shape), value.dtype)
            inputs[name].copy_(value)
        else:
            inputs[name] = described[name] = value
    written: dict[str, torch.Tensor] = {}
    described_written: dict[str, Any] = {}
    for name, tensor in task.everything.items():
        if name in task.accumulates:
            written[name], described_written[name] = inputs[name], described[name]
        elif name not in task.tensors:
            size, dtype = tensor.size(workload.sizes), TORCH_DTYPES[task.dtype_of(name, workload.storage)]
            written[name], described_written[name] = arena.take(name, size, dtype)
    result = BufferSet(
        inputs,
        {n: written[n] for n in task.outputs},
        described,
        {n: described_written[n] for n in task.outputs},
        sizes=workload.sizes,
        between={n: t for n, t in written.items() if n not in task.outputs},
        described_between={n: d for n, d in described_written.items() if n not in task.outputs},
        moving=_multiplied(task, inputs),
        redraw=redraw,
    )
    if bare:
        result.bare = _bare(arena, task, workload, inputs, described)
    return result


def _multiplied(task: Task, inputs: dict[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys(name for part in task.parts.values() for name in (part.gemm.a, part.gemm.b))
    return tuple(name for name in names if name in inputs)


def _bare(
    arena: Arena, task: Task, workload: Workload, inputs: dict[str, Any], described: dict[str, Any]
) -> dict[str, BareSet]:
    """The products of all stages, in room for the largest. Operands that an earlier stage writes have stand-ins, for
    the speed of a product depends on what it multiplies."""
    dtype = TORCH_DTYPES[beside(workload.storage)]  # operands in fp8 are always inputs
    sides = {s: (p.m.size(workload.sizes), p.n.size(workload.sizes)) for s, p in task.parts.items()}
    room, place = arena.take("the bare product", (max(m * n for m, n in sides.values()),), dtype)
    operands, places = dict(inputs), dict(described)
    made = {}
    for stage, part in task.parts.items():
        for name in (part.gemm.a, part.gemm.b):
            if name not in operands:
                size = part.tensors[name].size(workload.sizes)
                operands[name], places[name] = arena.take(f"the stand-in for {name}", size, dtype)
                operands[name].normal_()
        m, n = sides[stage]
        made[stage] = BareSet(
            inputs={"a": operands[part.gemm.a], "b": operands[part.gemm.b]},
            outputs={"product": room[: m * n].view(m, n)},
            described={"a": places[part.gemm.a], "b": places[part.gemm.b], "product": {**place, "shape": [m, n]}},
        )
    return made


def partials(task: Task, sizes: dict[str, int], objects: Iterable[Object]) -> int:
    """Bytes of the shared block that the workspaces of all these kernels take beside one set."""
    total = 0
    for item in objects:
        part = task.parts[item.stage]
        shapes = workspace_shapes(item.signature, part.m.size(sizes), part.n.size(sizes))
        total += sum(room(rows * columns * torch.float32.itemsize) for rows, columns in shapes.values())
    return total


def workspace(arena: Arena, buffers: BufferSet | BareSet, signature: Signature) -> dict[str, Any]:
    """Partials for one schedule, beside the set; made once a set and schedule."""
    name = f"{signature.symbol}"
    if name not in buffers.workspaces:
        shapes = workspace_shapes(signature, *product_shape(signature, buffers.tensors))
        buffers.workspaces[name] = {
            f: arena.take(f"the workspace {f}", shape, torch.float32)[1] for f, shape in shapes.items()
        }
    return buffers.workspaces[name]
