"""What a deferred RMSNorm needs where no product came before it: the row times the norm's weight, and its statistic.

g = h gamma, rstd = rsqrt(mean of h^2 + eps).  The first layer's norm, on embeddings; later ones come out of products.
h [M, N], gamma [N] and the number eps give g [M, N] and rstd [M] in float32.
Cost: one element read and one written each.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ._rows import on, wide

BLOCK = 2048  # columns at a time


def meaning(h: torch.Tensor, gamma: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """g in h's dtype, and rstd in float32 at least."""
    x = wide(h)
    return (x * wide(gamma)).to(h.dtype), torch.rsqrt(x.square().mean(-1) + eps)


def launch(h: torch.Tensor, gamma: torch.Tensor, eps: float, g: torch.Tensor, rstd: torch.Tensor) -> None:
    """One program a row."""
    rows, columns = h.shape
    with on("rms_scale", h, gamma, g, rstd):
        _kernel[(rows,)](h, gamma, g, rstd, columns, eps, triton.cdiv(columns, BLOCK), BLOCK)


@triton.jit
def _kernel(h_at, gamma_at, g_at, rstd_at, columns, eps, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(TURNS):
        column = turn * BLOCK + tl.arange(0, BLOCK)
        inside = column < columns
        h = tl.load(h_at + row * columns + column, mask=inside, other=0.0).to(tl.float32)
        gamma = tl.load(gamma_at + column, mask=inside, other=0.0).to(tl.float32)
        total += h * h
        tl.store(g_at + row * columns + column, (h * gamma).to(g_at.dtype.element_ty), mask=inside)
    tl.store(rstd_at + row, 1.0 / tl.sqrt(tl.sum(total, 0) / columns + eps))
