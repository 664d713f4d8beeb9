"""Pairs: adjacent columns (0, 1), (2, 3), ... taken apart and put together.

A gated activation reads gate and up from one accumulator whose columns alternate; a rotary embedding
turns each pair.  Weights laid out as [gate; up] halves are relabelled to alternate without a copy
(`layout="halves"` in the task), so an epilogue always sees pairs.
"""

from __future__ import annotations

import torch

from .primitive import primitive


@primitive("pairs")
def unpack(x):
    """Take adjacent columns apart: `even, odd = unpack(x)`, each half as wide. No bytes moved."""
    return x[..., 0::2], x[..., 1::2]


@primitive("pairs")
def pack(even, odd):
    """Put two values back as alternating columns, twice as wide: the inverse of unpack."""
    even, odd = torch.broadcast_tensors(even, odd)
    return torch.stack((even, odd), dim=-1).flatten(-2)


@primitive("pairs")
def rotate(x, cos, sin):
    """Turn each pair of columns (a, b) by an angle: (a cos - b sin, a sin + b cos). Rotary embedding, Su et al. 2021.

    x is as wide as the accumulator; cos and sin have one column a pair, from `unpack` of a table
    whose columns alternate cos, sin.
    """
    even, odd = unpack(x)
    return pack(even * cos - odd * sin, even * sin + odd * cos)
