"""Backward of a rotary embedding, with the row statistic of a deferred RMSNorm before it.

y = (a c - b s, a s + b c) for each pair (a, b) of z, so dz = (da c + db s, db c - da s), and the row sum of z dz is
that of y dy, whatever c and s are (CODA, arXiv 2605.19269).  The columns whose cos is 1 and sin 0 pass as they are.
dy and y [M, N], table [M, N] of alternating cos, sin give dz [M, N] and zdz [M] in float32; N is even.
Cost: 4 elements read or written each.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ._rows import lanes, on, wide, woven

BLOCK = 1024  # columns at a time


def meaning(dy: torch.Tensor, y: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """dz in dy's dtype, and zdz in float32 at least."""
    (da, db), (cos, sin) = lanes(dy), lanes(table)
    dz = woven(da * cos + db * sin, db * cos - da * sin)
    return dz.to(dy.dtype), (wide(y) * wide(dy)).sum(-1)


def launch(dy: torch.Tensor, y: torch.Tensor, table: torch.Tensor, dz: torch.Tensor, zdz: torch.Tensor) -> None:
    """One program a row."""
    rows, columns = dy.shape
    with on("rope_bwd", dy, y, table, dz, zdz):
        _kernel[(rows,)](dy, y, table, dz, zdz, columns, triton.cdiv(columns, BLOCK), BLOCK)


@triton.jit
def _kernel(dy_at, y_at, table_at, dz_at, zdz_at, columns, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start = row * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(TURNS):
        column = turn * BLOCK + tl.arange(0, BLOCK)
        inside = column < columns
        place = start + column
        dy = tl.load(dy_at + place, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_at + place, mask=inside, other=0.0).to(tl.float32)
        table = tl.load(table_at + place, mask=inside, other=0.0).to(tl.float32)
        total += dy * y
        da, db = tl.split(tl.reshape(dy, (BLOCK // 2, 2)))
        cos, sin = tl.split(tl.reshape(table, (BLOCK // 2, 2)))
        dz = tl.reshape(tl.join(da * cos + db * sin, db * cos - da * sin), (BLOCK,))
        tl.store(dz_at + place, dz.to(dz_at.dtype.element_ty), mask=inside)
    tl.store(zdz_at + row, tl.sum(total, 0))
