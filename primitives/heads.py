"""Statistics of heads: groups of adjacent columns that lie inside one tile, known before anything is stored.

Unlike a reduction, the result is a value to go on with: the kernel walks its accumulator once more for it.
"""

from __future__ import annotations

from .primitive import primitive

NARROWEST, WIDEST = 32, 256
"""Columns of a head: multiples of the first, up to the second."""


@primitive("heads")
def head_sum(x, head_dim):
    """Per row, the sum of x over each head of head_dim adjacent columns, given to every column of the head.

    `acc * rsqrt(head_sum(acc * acc, 128) / 128 + 1e-6)` is the RMSNorm of a head. head_dim is a number: a multiple of
    32 up to 256, which the width of the product's columns (declared as 128H, say) is a multiple of. x is made of acc,
    vectors and scalars, before `unpack`. No bytes moved; costs a second walk over the accumulator.
    """
    heads = x.unflatten(-1, (-1, int(head_dim)))
    return heads.sum(-1, keepdim=True).expand_as(heads).flatten(-2)
