"""Stateful accumulation: what a plain sum or maximum cannot express.

Like reductions, these may appear only as returned values.
"""

from __future__ import annotations

import torch

from .primitive import primitive


@primitive("stateful")
def row_lse(a):
    """Per row, log(sum(exp(a))) by an online maximum and sum, so that nothing overflows. Result [M].

    Milakov and Gimelshein 2018. Cost: one exp an element, 4 bytes a row and tile.
    """
    return torch.logsumexp(a, -1)


@primitive("stateful")
def select(a, index):
    """Per row m, the value of a in column index[m], as a cross-entropy target. Result [M].

    Rows whose index lies outside the columns (such as -100) keep what the output held before.
    """
    safe = index.clamp(0, a.shape[-1] - 1).to(torch.int64)
    picked = torch.gather(a, -1, safe[..., None])[..., 0]
    return torch.where((index >= 0) & (index < a.shape[-1]), picked, torch.nan)
