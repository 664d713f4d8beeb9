"""The loss of a language model from its last hidden states, the logits never all in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from ..errors import InputError
from ..operator import Operator
from . import rows as row_kernels
from .operators import operator

LOGITS = 2**27
"""How many logits exist at a time, 256 MiB of bf16."""


class LinearCrossEntropy(nn.Module):
    """cross_entropy(x W^T, target): the vocabulary projection and its loss, in blocks of rows.

    hidden, vocabulary: widths. ignore_index, reduction ("mean", "sum", "none"): as torch.nn.CrossEntropyLoss.
    device, dtype: as for torch.nn.Linear. State dict: weight [vocabulary, hidden], as a bias-free torch.nn.Linear's.
    Memory does not grow with rows times vocabulary.  A mean or a sum makes the gradients in the forward pass, while a
    block's logits are there, and the backward pass only scales them: three products in all.  With reduction "none" and
    in fp16, whose range sums over all rows may leave, the backward pass makes the logits again: four.
    Raises ValueError for an unknown reduction or a width of 0, and InputError for a target of another shape.
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
        if hidden < 1 or vocabulary < 1:
            raise ValueError(f"hidden is {hidden} and vocabulary {vocabulary}; give each 1 or more")
        self.weight = nn.Linear(hidden, vocabulary, bias=False, device=device, dtype=dtype).weight
        self.ignore_index, self.reduction = ignore_index, reduction
        self._forward, self._backward = operator("linear_cross_entropy_partial"), operator("linear_dlogits")

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """x [..., hidden], target [...] of columns or ignore_index. The loss in float32, [...] or a scalar.

        The mean over no rows at all is NaN and has gradients of 0, as in PyTorch.  A target that is no column: an
        InputError on a CPU; on a GPU, which is not waited for, a loss of NaN.
        """
        if target.shape != x.shape[:-1]:
            raise InputError(
                f"target has shape {list(target.shape)}, and x has shape {list(x.shape)}; give target one column for "
                f"each row, {list(x.shape[:-1])}"
            )
        rows, columns = x.reshape(-1, x.shape[-1]).contiguous(), target.reshape(-1)
        weight, kind = self.weight, x.device.type
        if torch.is_autocast_enabled(kind):
            rows, weight = (v.to(torch.get_autocast_dtype(kind)) for v in (rows, weight))
        counted = columns != self.ignore_index
        columns = columns.where(counted, 0)
        outside = (columns < 0) | (columns >= weight.shape[0])
        graded = torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad)
        if graded and self.reduction != "none" and rows.dtype != torch.float16:
            share, mean = counted.to(torch.float32), self.reduction == "mean"
            share = (share / share.sum().clamp(min=1) if mean else share).masked_fill(outside, torch.nan)
            total = _Total.apply(self._forward, rows, weight, columns, share)
            return total.where(counted.any(), torch.nan) if mean else total
        if graded:
            losses = _Losses.apply(self._forward, self._backward, rows, weight, columns)
        else:
            losses = _losses(self._forward, rows, weight, columns)[0]
        losses = losses.where(counted, 0).masked_fill(outside, torch.nan)
        if self.reduction == "none":
            return losses.view(target.shape)
        return losses.sum() / counted.sum() if self.reduction == "mean" else losses.sum()


class _Total(torch.autograd.Function):
    """The sum over rows of loss times share; both gradients are made on the way."""

    @staticmethod
    def forward(ctx: Any, forward: Operator, x, w, target, share):  # type: ignore[override]
        _, want_x, want_w, _, _ = ctx.needs_input_grad
        losses, parts, grad_w = [], [], None
        for _, (rows, columns, shares) in _blocks(w, x, target, share):
            logits, picked, lse = forward(rows, w, columns)
            losses.append(((lse - picked) * shares).where(shares != 0, 0))
            dlogits = row_kernels.dlogits(logits, lse, columns, shares)
            del logits
            if want_x:
                parts.append(dlogits @ w)
            if want_w:
                grad_w = _added(grad_w, dlogits.t() @ rows, len(rows) == len(x))
        ctx.save_for_backward((parts[0] if len(parts) == 1 else torch.cat(parts)) if want_x else None, grad_w)
        ctx.dtype = w.dtype
        return torch.cat(losses).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad):  # type: ignore[override]
        grad_x, grad_w = (None if g is None else g * grad for g in ctx.saved_tensors)
        return None, grad_x, None if grad_w is None else grad_w.to(ctx.dtype), None, None


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
                grad_w = _added(grad_w, part, len(rows) == len(x))
        return None, None, grad_x, grad_w if grad_w is None else grad_w.to(w.dtype), None


def _added(total: torch.Tensor | None, part: torch.Tensor, alone: bool) -> torch.Tensor:
    """Over several blocks the sum is float32 at least: each would otherwise be rounded into it."""
    if alone:
        return part
    return part.to(torch.promote_types(part.dtype, torch.float32)) if total is None else total.add_(part)


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
