"""Backward of a rotary embedding whose gradient comes in three parts, as attention gives it, with the row statistic.

As `rope_bwd` of the three side by side, the values not turned; neither they nor the table of all heads is ever put
together in memory.
dq [M, H head_dim], dk and dv [M, G head_dim], y [M, N] with N = (H + 2 G) head_dim, table [M, head_dim] of alternating
cos, sin give dz [M, N] and zdz [M] in float32; widths are even.
Cost: 3 elements read or written each.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ._rows import lanes, on, wide, woven

BLOCK = 1024  # columns at a time


def meaning(
    dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor, y: torch.Tensor, table: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """dz in dq's dtype, and zdz in float32 at least."""
    turning = torch.cat((dq, dk), -1)
    (da, db), (cos, sin) = lanes(turning), lanes(table.repeat(1, turning.shape[1] // table.shape[1]))
    dz = woven(da * cos + db * sin, db * cos - da * sin).to(dq.dtype)
    return torch.cat((dz, dv), -1), (wide(y) * wide(torch.cat((turning, dv), -1))).sum(-1)


def launch(dq, dk, dv, y, table, dz, zdz) -> None:
    """One program a row."""
    rows, head = table.shape
    with on("qkv_rope_bwd", dq, dk, dv, y, table, dz, zdz):
        _kernel[(rows,)](dq, dk, dv, y, table, dz, zdz, dq.shape[1], dk.shape[1], head, BLOCK)


@triton.jit
def _part(dy_at, y_at, table_at, dz_at, width, head, total, TURNING: tl.constexpr, BLOCK: tl.constexpr):
    """One of the three: what it adds to the statistic; pointers are those of the row."""
    for turn in range(tl.cdiv(width, BLOCK)):
        column = turn * BLOCK + tl.arange(0, BLOCK)
        inside = column < width
        dy = tl.load(dy_at + column, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(y_at + column, mask=inside, other=0.0).to(tl.float32)
        total += dy * y
        dz = dy
        if TURNING:
            table = tl.load(table_at + column % head, mask=inside, other=0.0).to(tl.float32)
            da, db = tl.split(tl.reshape(dy, (BLOCK // 2, 2)))
            cos, sin = tl.split(tl.reshape(table, (BLOCK // 2, 2)))
            dz = tl.reshape(tl.join(da * cos + db * sin, db * cos - da * sin), (BLOCK,))
        tl.store(dz_at + column, dz.to(dz_at.dtype.element_ty), mask=inside)
    return total


@triton.jit
def _kernel(dq_at, dk_at, dv_at, y_at, table_at, dz_at, zdz_at, queries, keys, head: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start = row * (queries + 2 * keys)
    table = table_at + row * head
    total = tl.zeros((BLOCK,), tl.float32)
    total = _part(dq_at + row * queries, y_at + start, table, dz_at + start, queries, head, total, True, BLOCK)
    start += queries
    total = _part(dk_at + row * keys, y_at + start, table, dz_at + start, keys, head, total, True, BLOCK)
    start += keys
    total = _part(dv_at + row * keys, y_at + start, table, dz_at + start, keys, head, total, False, BLOCK)
    tl.store(zdz_at + row, tl.sum(total, 0))
