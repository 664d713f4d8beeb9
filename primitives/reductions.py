"""Reductions over a row's columns or a column's rows.

An epilogue sees one tile, so a reduction lowers to per-tile partials and a small finishing kernel that
joins them; both belong to the measured time.  They may appear only as returned values, and their
results are float32 vectors: one element a row (length M), or one a column (length N).
Cost: 4 bytes a row and tile (a column and tile), written once and read once.
"""

from __future__ import annotations

import torch

from .primitive import primitive


@primitive("reductions")
def row_sum(a, b=None):
    """Per row, the sum of a over columns, or of a * b (one fused multiply-add each). Result [M]."""
    return (a if b is None else a * b).sum(-1)


@primitive("reductions")
def col_sum(a, b=None):
    """Per column, the sum of a over rows, or of a * b. Result [N]."""
    return (a if b is None else a * b).sum(-2)


@primitive("reductions")
def row_max(a):
    """Per row, the largest value. Result [M]."""
    return torch.amax(a, -1)


@primitive("reductions")
def col_max(a):
    """Per column, the largest value. Result [N]."""
    return torch.amax(a, -2)


@primitive("reductions")
def row_absmax(a):
    """Per row, the largest magnitude, as dynamic quantisation needs. Result [M]."""
    return torch.amax(torch.abs(a), -1)


@primitive("reductions")
def col_absmax(a):
    """Per column, the largest magnitude. Result [N]."""
    return torch.amax(torch.abs(a), -2)
