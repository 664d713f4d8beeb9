"""A program's kernels put together: one launch that runs its stages in order and makes what passes between them.

Every tensor is allocated by the stage that writes it and let go after the last that reads it, so that a later stage
finds the memory of an earlier one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..tasks import ProgramTask
from ..templates import launch as template
from ..templates.program import FINISH, Stage
from ..templates.rows import row_kernel
from ..templates.signature import Signature, TensorSpec
from .record import CompiledObject
from .sizes import Value, sizes_of

Run = Callable[[tuple[Any, ...]], tuple[torch.Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """A stage ready to run; tensors by their places among inputs and all that is written."""

    run: Run
    reads: list[int]
    writes: list[int]
    done: list[int]
    """What no later stage reads."""


class Launch:
    """A program bound to the shapes, dtypes and device of its inputs: from their values to its outputs in order."""

    def __init__(self, steps: tuple[Step, ...], outputs: tuple[int, ...], extra: int, device: torch.device):
        self._steps, self._outputs, self._extra, self._device = steps, outputs, extra, device
        self._needed: dict[frozenset[int], tuple[Step, ...]] = {}

    def __call__(self, values: tuple[Value, ...]) -> tuple[torch.Tensor, ...]:
        return self._run(self._steps, values)

    def only(self, values: tuple[Value, ...], wanted: frozenset[int]) -> tuple[torch.Tensor | None, ...]:
        """The outputs of these places, and None for others that no stage had to run for."""
        if wanted not in self._needed:
            places, steps = {self._outputs[i] for i in wanted}, []
            for step in reversed(self._steps):
                if not places.isdisjoint(step.writes):
                    steps.append(step)
                    places.update(step.reads)
            self._needed[wanted] = tuple(reversed(steps))
        return self._run(self._needed[wanted], values)

    def _run(self, steps: tuple[Step, ...], values: tuple[Value, ...]) -> tuple[Any, ...]:
        index = self._device.index
        if index is not None and torch._C._cuda_getDevice() != index:
            with torch.cuda.device(self._device):
                return self._run(steps, values)
        held: list[Any] = [*values, *[None] * self._extra]
        for step in steps:
            made = step.run(tuple([held[i] for i in step.reads]))
            for i, tensor in zip(step.writes, made, strict=True):
                held[i] = tensor
            del made, tensor
            for i in step.done:
                held[i] = None
        return tuple([held[i] for i in self._outputs])


class Assembled:
    """What the runner asks of a kernel, for a whole program. kernels: one a product, by stage."""

    def __init__(self, task: ProgramTask, kernels: Mapping[str, Any]):
        self.task, self.kernels = task, kernels
        self.signature = whole(task, next(iter(kernels.values())).signature)

    def bound(self, inputs: dict[str, Any]) -> Launch:
        """A launch on the current stream for all inputs of these shapes, dtypes and device."""
        task, signature = self.task, self.signature
        sizes = sizes_of(task, list(inputs.values()))
        device = inputs[task.leading].device
        # What later stages read is not there yet: one element stands for it, in the shape that it will have.
        known = dict(inputs)
        for name in signature.outputs:
            spec = signature.tensors[name]
            dtype = template.TORCH_DTYPES[spec.dtype]
            known[name] = torch.empty(1, dtype=dtype, device=device).expand(spec.size(sizes))
        slots = {name: i for i, name in enumerate(known)}
        stages = task.program({}, sizes).stages
        last = {name: i for i, stage in enumerate(stages) for name in (*stage.reads, *stage.writes)}
        steps = []
        for i, stage in enumerate(stages):
            reads, writes, run = self._step(stage, known)
            done = [n for n in (*reads, *writes) if last[n] == i and n not in task.outputs]
            steps.append(Step(run, *([slots[n] for n in names] for names in (reads, writes, done))))
        return Launch(tuple(steps), tuple(slots[n] for n in task.outputs), len(slots) - len(inputs), device)

    def _step(self, stage: Stage, known: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...], Run]:
        """Which tensors a stage reads and writes, in order, and what runs it."""
        if stage.kind == "gemm":
            kernel = self.kernels[stage.name]
            names = kernel.signature.inputs
            return names, kernel.signature.outputs, kernel.bound({n: known[n] for n in names})
        constants = dict(stage.constants)
        if stage.kind == "finish":
            formula = FINISH[stage.formula]
            return stage.reads, stage.writes, lambda values: (formula(*values, **constants),)
        rows = row_kernel(stage.formula).launch
        made = [(known[n].shape, known[n].dtype, known[n].device) for n in stage.writes]

        def run(values: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
            outputs = tuple([torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in made])
            rows(*values, *outputs, **constants)
            return outputs

        return stage.reads, stage.writes, run


def whole(task: ProgramTask, part: Signature) -> Signature:
    """The program's tensors as a signature, by which inputs are refused; all that it writes counts as outputs."""
    tensors = {
        name: TensorSpec(
            shape=tuple((d.coefficient, d.symbol) for d in tensor.dimensions),
            dtype=tensor.dtype or (part.storage if tensor.dimensions else "float"),
        )
        for name, tensor in task.everything.items()
    }
    written = tuple(n for n in task.everything if n not in task.tensors)
    return part.model_copy(
        update={"task": task.name, "tensors": tensors, "inputs": tuple(task.tensors), "outputs": written}
    )


def joined(objects: Mapping[str, CompiledObject]) -> CompiledObject:
    """The objects of all stages as one, by whose digest a check of the whole is remembered."""
    digest = hashlib.sha256("".join(o.sha256 for o in objects.values()).encode()).hexdigest()
    schedule = ", ".join(f"{stage} {o.schedule}" for stage, o in objects.items())
    return next(iter(objects.values())).model_copy(update={"sha256": digest, "schedule": schedule, "stage": ""})
