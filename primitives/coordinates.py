"""Coordinates: where an element stands, as a float32 number (exact below 2^24).

Masks, one-hot rows and positions come of these and of comparisons.  An operand of column numbers may be
compared with them: `where(column_index(y) == target, 1.0, 0.0)` is a one-hot row.
"""

from __future__ import annotations

import torch

from .primitive import primitive


@primitive("coordinates")
def column_index(x):
    """The number of each column of x, from 0: [1, width of x], the same in every row. No bytes moved.

    Counted in columns as the epilogue sees them: behind `unpack`, in pairs; beside weights laid out as halves, which
    are relabelled to alternate, column 2 j is column j of the first half and 2 j + 1 column j of the second.
    """
    return torch.arange(x.shape[-1], dtype=_dtype(x), device=x.device)[None, :]


@primitive("coordinates")
def row_index(x):
    """The number of each row of x, from 0: [M, 1], the same in every column. No bytes moved."""
    return torch.arange(x.shape[-2], dtype=_dtype(x), device=x.device)[:, None]


def _dtype(x: torch.Tensor) -> torch.dtype:
    """float16 and bfloat16 have no room for column numbers."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
