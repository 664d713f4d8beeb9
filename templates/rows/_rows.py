"""What row kernels share: how torch meanings widen, and that tensors are as a kernel reads them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def wide(t: torch.Tensor) -> torch.Tensor:
    """In float32 at least; float64 stays."""
    return t if t.dtype == torch.float64 else t.float()


def lanes(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Even and odd columns, widened."""
    return wide(t[..., 0::2]), wide(t[..., 1::2])


def woven(even: torch.Tensor, odd: torch.Tensor) -> torch.Tensor:
    """Columns of the two in turn: the inverse of `lanes`."""
    return torch.stack((even, odd), -1).flatten(-2)


def on(kernel: str, *tensors: torch.Tensor) -> AbstractContextManager:
    """The device of these tensors made current. Raises ValueError for one that is not contiguous."""
    for t in tensors:
        if not t.is_contiguous():
            raise ValueError(
                f"the row kernel {kernel} reads contiguous tensors, and one of shape {list(t.shape)} has strides "
                f"{list(t.stride())}; call .contiguous()"
            )
    device = tensors[0].device
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)
