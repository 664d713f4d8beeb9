"""A program and its backward twin as one operator: which of the twin's inputs are gradients, and whose.

The names say it: the twin of `mlp` is called `mlp_bwd`.  It takes d and an output's name for that output's gradient,
the forward program's inputs and outputs by their own names, and gives d and an input's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..tasks import ProgramTask, TaskError

if TYPE_CHECKING:
    from .operator import Operator

SUFFIX = "_bwd"


@dataclass(frozen=True)
class Twin:
    """How a backward program is called with what a forward one has. Made by `pair`."""

    operator: Operator
    reads: tuple[tuple[str, int], ...]
    """For each of the twin's inputs: "grad" or "output" with the place of an output, "input" with that of an input."""
    gives: dict[int, int]
    """By the place of a forward input, the twin's output that is its gradient."""

    @property
    def saved(self) -> tuple[int, ...]:
        """Places of the forward outputs that the twin reads."""
        return tuple(place for kind, place in self.reads if kind == "output")

    def serves(self, grads: Sequence[torch.Tensor | None], wanted: Sequence[int]) -> bool:
        """Whether the twin knows of every gradient that came, and gives every one that is wanted."""
        known = {place for kind, place in self.reads if kind == "grad"}
        return all(g is None or i in known for i, g in enumerate(grads)) and all(i in self.gives for i in wanted)

    def gradients(
        self,
        grads: Sequence[torch.Tensor | None],
        inputs: Sequence[Any],
        outputs: dict[int, torch.Tensor],
        shapes: Sequence[tuple[torch.Size, torch.dtype]],
        wanted: Sequence[int],
    ) -> dict[int, torch.Tensor]:
        """By the place of each wanted input, its gradient in the input's dtype.

        outputs: the forward outputs in `saved`. shapes: of all forward outputs, for a gradient that did not come.
        """
        device = next(g for g in grads if g is not None).device
        values = []
        for kind, place in self.reads:
            if kind == "grad":
                grad = grads[place]
                shape, dtype = shapes[place]
                values.append(torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad.contiguous())
            else:
                values.append(outputs[place] if kind == "output" else inputs[place])
        found = self.operator.only(tuple(values), frozenset(self.gives[place] for place in wanted))
        return {place: found[self.gives[place]].to(inputs[place].dtype) for place in wanted}


def pair(task: ProgramTask, operator: Operator) -> Twin:
    """Fit a backward program's operator to the forward program. Raises TaskError where the names do not."""
    back = operator.task
    inputs, outputs = list(task.tensors), list(task.outputs)
    reads = []
    for name in back.tensors:
        if name in inputs:
            reads.append(("input", inputs.index(name)))
        elif name in outputs:
            reads.append(("output", outputs.index(name)))
        elif name[:1] == "d" and name[1:] in outputs:
            reads.append(("grad", outputs.index(name[1:])))
        else:
            raise TaskError(
                f"{back.name} reads {name!r}, which is no input and no output of {task.name}, nor d and an output's "
                f"name; {task.name} has {', '.join(inputs)} and gives {', '.join(outputs)}"
            )
    gives = {inputs.index(name[1:]): i for i, name in enumerate(back.outputs) if name[:1] == "d" and name[1:] in inputs}
    if len(gives) < len(back.outputs) or "grad" not in dict(reads):
        raise TaskError(
            f"{back.name} gives {', '.join(back.outputs)}; gradients of {task.name} are d and {', '.join(inputs)}"
        )
    return Twin(operator, tuple(reads), gives)
