"""Backward of QK-norm with rotary embedding, head by head; heads that pass unnormed beside the others.

z = q (r gamma + plain) with r = rsqrt(mean over the head of q^2 + eps), then y is z turned by the table's angles.
With dz turned back and t = sum over the head of dz gamma q:  dq = dz (r gamma + plain) - q t r^3 / head_dim and
dgamma = sum over rows of dz q r.  A query or key head has plain = 0; a value head has gamma = 0, plain = 1, cos 1 and
sin 0, so that dq = dy, and its dgamma is of no use.
dy and q [M, N], gamma and plain [N], table [M, N] of alternating cos, sin, and the number eps give dq [M, N] and
dgamma [N] in float32; N is a multiple of head_dim, which is 64, 128 or 256.  Cost: 4 elements read or written each.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ._rows import lanes, on, wide, woven

HEAD_DIMS = (64, 128, 256)
ROWS = 16  # at a time
STEPS = 4  # times that in one program


def meaning(dy, q, gamma, plain, table, eps, *, head_dim) -> tuple[torch.Tensor, torch.Tensor]:
    """dq in q's dtype, and dgamma in float32 at least."""
    (da, db), (cos, sin) = lanes(dy), lanes(table)
    dz = woven(da * cos + db * sin, db * cos - da * sin).unflatten(-1, (-1, int(head_dim)))
    x, weight, kept = (wide(t).unflatten(-1, (-1, int(head_dim))) for t in (q, gamma, plain))
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    t = (dz * weight * x).sum(-1, keepdim=True)
    dq = dz * (r * weight + kept) - x * t * r**3 / head_dim
    return dq.flatten(-2).to(q.dtype), (dz * x * r).sum(0).flatten()


def launch(dy, q, gamma, plain, table, eps, dq, dgamma, *, head_dim) -> None:
    """One program a head and 64 rows; dgamma is the sum of their parts."""
    rows, columns = dy.shape
    head_dim = int(head_dim)
    if head_dim not in HEAD_DIMS or columns % head_dim:
        raise ValueError(
            f"qknorm_rope_bwd works on whole heads of {', '.join(map(str, HEAD_DIMS))} columns, and these are "
            f"{columns} columns in heads of {head_dim}; use another head_dim"
        )
    blocks = triton.cdiv(rows, ROWS * STEPS)
    parts = torch.empty((blocks, columns), dtype=torch.float32, device=dy.device)
    with on("qknorm_rope_bwd", dy, q, gamma, plain, table, dq, dgamma):
        _kernel[(blocks, columns // head_dim)](
            dy, q, gamma, plain, table, dq, parts, rows, columns, eps, head_dim, ROWS, STEPS
        )
        torch.sum(parts, 0, out=dgamma)


@triton.jit
def _lanes(x, ROWS: tl.constexpr, HEAD: tl.constexpr):
    return tl.split(tl.reshape(x, (ROWS, HEAD // 2, 2)))


@triton.jit(do_not_specialize=["rows"])
def _kernel(
    dy_at,
    q_at,
    gamma_at,
    plain_at,
    table_at,
    dq_at,
    parts_at,
    rows,
    columns,
    eps,
    HEAD: tl.constexpr,
    ROWS: tl.constexpr,
    STEPS: tl.constexpr,
):
    block = tl.program_id(0)
    column = tl.program_id(1) * HEAD + tl.arange(0, HEAD)
    gamma_a, gamma_b = _lanes(tl.load(gamma_at + column).to(tl.float32)[None, :], 1, HEAD)
    plain_a, plain_b = _lanes(tl.load(plain_at + column).to(tl.float32)[None, :], 1, HEAD)
    part_a = tl.zeros((HEAD // 2,), tl.float32)
    part_b = tl.zeros((HEAD // 2,), tl.float32)
    for step in range(STEPS):
        row = (block * STEPS + step) * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None]
        place = row.to(tl.int64)[:, None] * columns + column[None, :]
        dy_a, dy_b = _lanes(tl.load(dy_at + place, mask=inside, other=0.0).to(tl.float32), ROWS, HEAD)
        a, b = _lanes(tl.load(q_at + place, mask=inside, other=0.0).to(tl.float32), ROWS, HEAD)
        cos, sin = _lanes(tl.load(table_at + place, mask=inside, other=0.0).to(tl.float32), ROWS, HEAD)
        dz_a, dz_b = dy_a * cos + dy_b * sin, dy_b * cos - dy_a * sin
        r = 1.0 / tl.sqrt(tl.sum(a * a + b * b, 1) / HEAD + eps)[:, None]
        r = tl.where(inside, r, 0.0)
        t = tl.sum(dz_a * gamma_a * a + dz_b * gamma_b * b, 1)[:, None]
        back = t * r * r * r / HEAD
        dq_a = dz_a * (r * gamma_a + plain_a) - a * back
        dq_b = dz_b * (r * gamma_b + plain_b) - b * back
        dq = tl.reshape(tl.join(dq_a, dq_b), (ROWS, HEAD))
        tl.store(dq_at + place, dq.to(dq_at.dtype.element_ty), mask=inside)
        part_a += tl.sum(dz_a * a * r, 0)
        part_b += tl.sum(dz_b * b * r, 0)
    part = tl.reshape(tl.join(part_a, part_b), (HEAD,))
    tl.store(parts_at + block.to(tl.int64) * columns + column, part)
