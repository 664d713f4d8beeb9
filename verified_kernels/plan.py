"""What an operator does with inputs of one kind, and in which form it returns what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..templates.signature import Signature
from .sizes import Value
from .watched import never

Fresh = tuple[torch.Tensor, ...]
"""The new outputs, in the task's order, without those accumulated in place."""


class Kernel(Protocol):
    """What `templates.launch.Kernel` offers: a launch on the current stream."""

    signature: Signature

    def bound(self, inputs: dict[str, Any]) -> Callable[[tuple[Value, ...]], Fresh]: ...


@dataclass(slots=True)
class Plan:
    """What to do with inputs of one kind: launch a kernel, or run the reference for a reason."""

    launch: Callable[[tuple[Value, ...]], Fresh] | None
    reason: str = ""
    """Why it is the reference."""
    preferred: bool = False
    """Whether that is because the reference is faster, which nobody need be warned of."""
    chosen: str = ""
    """The kernel, in words."""
    differentiable: bool = False
    """Whether some input asks for a gradient."""
    guard: Callable[..., bool] = never
    """Whether values are of this plan's kind and nothing watches the call; made when the plan is met again."""


def returned(fresh: Fresh) -> torch.Tensor | Fresh | None:
    """New outputs as an operator returns them: where there are none, PyTorch's dispatcher wants None."""
    return (fresh[0] if len(fresh) == 1 else fresh) if fresh else None
