"""The loss of a language model from its last hidden states, the logits never all in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from ..operator import Operator
from .operators import operator

LOGITS = 2**27
"""How many logits exist at a time, 256 MiB of bf16."""


class LinearCrossEntropy(nn.Module):
    """cross_entropy(x W^T, target): the vocabulary projection and its loss, in blocks of rows.

    hidden, vocabulary: widths. ignore_index, reduction ("mean", "sum", "none"): as torch.nn.CrossEntropyLoss.
    device, dtype: as for torch.nn.Linear. State dict: weight [vocabulary, hidden], as a bias-free torch.nn.Linear's.
    The backward pass makes the logits again, block by block: four products in all instead of three, and no memory
    that grows with rows times vocabulary.
    """

    def __init__(
        self,
        hidden: int,
        vocabulary: int,
        ignore_index: int = -100,
        reduction: str = "mean",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f'reduction is {reduction!r}; it must be "mean", "sum" or "none"')
        self.weight = nn.Linear(hidden, vocabulary, bias=False, device=device, dtype=dtype).weight
        self.ignore_index, self.reduction = ignore_index, reduction
        self._forward, self._backward = operator("linear_cross_entropy_partial"), operator("linear_dlogits")

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """x [..., hidden], target [...] of columns or ignore_index. The loss in float32, [...] or a scalar.

        The mean over no rows at all is NaN, as in PyTorch.
        """
        rows, columns = x.reshape(-1, x.shape[-1]).contiguous(), target.reshape(-1)
        weight, kind = self.weight, x.device.type
        if torch.is_autocast_enabled(kind):
            rows, weight = (v.to(torch.get_autocast_dtype(kind)) for v in (rows, weight))
        counted = columns != self.ignore_index
        columns = columns.where(counted, 0)
        if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad):
            losses = _Losses.apply(self._forward, self._backward, rows, weight, columns)
        else:
            losses = _losses(self._forward, rows, weight, columns)[0]
        losses = losses.where(counted, 0)
        if self.reduction == "none":
            return losses.view(target.shape)
        total = losses.sum()
        return total / counted.sum() if self.reduction == "mean" else total


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Operator, backward: Operator, x, w, target):  # type: ignore[override]
        losses, lse = _losses(forward, x, w, target)
        ctx.again = backward
        ctx.save_for_backward(x, w, target, lse)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad):  # type: ignore[override]
        x, w, target, lse = ctx.saved_tensors
        _, _, want_x, want_w, _ = ctx.needs_input_grad
        blocks = _blocks(w, x, target, lse, grad)
        grad_x = torch.empty_like(x) if want_x else None
        grad_w = None
        for start, (rows, columns, sums, scale) in blocks:
            dlogits = ctx.again(rows, w, sums, columns)
            if grad_x is not None:
                grad_x[start : start + len(rows)] = (dlogits @ w) * scale[:, None]
            if want_w:
                part = dlogits.t() @ (rows * scale[:, None]).to(rows.dtype)
                # Over several blocks the sum is float32: each would otherwise be rounded into it.
                grad_w = part if len(rows) == len(x) else part.float() if grad_w is None else grad_w.add_(part)
        return None, None, grad_x, grad_w if grad_w is None else grad_w.to(w.dtype), None


def _losses(forward: Operator, x: torch.Tensor, w: torch.Tensor, target: torch.Tensor):
    losses, sums = [], []
    for _, (rows, columns) in _blocks(w, x, target):
        _, picked, lse = forward(rows, w, columns)
        losses.append(lse - picked)
        sums.append(lse)
    return torch.cat(losses), torch.cat(sums)


def _blocks(w: torch.Tensor, *tensors: torch.Tensor):
    """Blocks of rows, and where each begins; at least one."""
    rows = max(LOGITS // len(w) // 128 * 128, 128)
    return (
        (start, tuple(t[start : start + rows] for t in tensors)) for start in range(0, max(len(tensors[0]), 1), rows)
    )
