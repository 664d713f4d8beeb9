"""One block of GPU memory that the referee owns and the runner sees: tensors carved from it, with canaries.

The referee shares the block by CUDA IPC once; after that a tensor crosses as an offset, a shape and a
dtype.  Between tensors lie canary bytes, so that a write outside an output is seen.
"""

from __future__ import annotations

import base64
from typing import Any

import torch

from ..templates.launch import TORCH_DTYPES

ALIGN = 1024
CANARY = 0xA5
_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}

Description = dict[str, Any]


class ArenaFull(MemoryError):
    """The workload does not fit into the shared block."""


def room(size: int) -> int:
    """Bytes that a tensor of so many takes, with the canaries after it."""
    return -(-size // ALIGN) * ALIGN + ALIGN


class Arena:
    """The owner's side."""

    def __init__(self, size: int, device: torch.device):
        self.block = torch.empty(size, dtype=torch.uint8, device=device)
        self.reset()

    def reset(self) -> None:
        """Forget all tensors and restore the canaries."""
        self.used = ALIGN
        self.gaps: list[tuple[str, int, int]] = [("the first tensor", 0, ALIGN)]
        self.block.fill_(CANARY)

    @property
    def left(self) -> int:
        return self.block.numel() - self.used

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, Description]:
        """A tensor of canary bytes, and how the other process finds it. Raises ArenaFull."""
        size = torch.Size(shape).numel() * dtype.itemsize
        start, end = self.used, self.used + size
        following = start + room(size)
        if following > self.block.numel():
            raise ArenaFull(
                f"{name} needs {size / 2**20:.0f} MiB and {self.left / 2**20:.0f} MiB of the shared block are left"
            )
        self.gaps.append((name, end, following))
        self.used = following
        tensor = self.block[start:end].view(dtype).view(shape)
        return tensor, {"offset": start, "shape": list(shape), "dtype": _NAMES[dtype]}

    def overrun(self) -> str | None:
        """The name of a tensor beyond (or before) which something was written."""
        for name, start, end in self.gaps:
            if not bool((self.block[start:end] == CANARY).all()):
                return name
        return None

    def handle(self) -> list[Any]:
        """What the other process needs to open the block, as JSON data."""
        return [
            {"bytes": base64.b64encode(part).decode()} if isinstance(part, bytes) else part
            for part in self.block.untyped_storage()._share_cuda_()
        ]


class View:
    """The other process's side."""

    def __init__(self, handle: list[Any], size: int):
        parts = [base64.b64decode(p["bytes"]) if isinstance(p, dict) else p for p in handle]
        storage = torch.UntypedStorage._new_shared_cuda(*parts)
        device = torch.device("cuda", int(parts[0]))
        self.block = torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (size,), (1,))

    def tensor(self, description: Description) -> torch.Tensor:
        dtype = TORCH_DTYPES[description["dtype"]]
        start = description["offset"]
        size = torch.Size(description["shape"]).numel() * dtype.itemsize
        return self.block[start : start + size].view(dtype).view(description["shape"])
