"""Rotary embedding by adjacent pairs, and the way there from checkpoints, which turn column i with i + head_dim / 2.

A kernel sees neighbouring columns only, so the rows of the query and key weights are reordered once: row i of a head
goes to 2i, row i + head_dim / 2 to 2i + 1.  Attention takes products of queries with keys, which an equal order of
both leaves as they are.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import RegistryError


def check_heads(what: str, length: int, head_dim: int) -> None:
    """Raise RegistryError where so many rows, or columns, are not heads of head_dim."""
    if head_dim < 2 or head_dim % 2 or length % head_dim:
        raise RegistryError(
            f"{what}, which do not divide into heads of {head_dim}; pass the model's head_dim, an even number"
        )


def head_dim_of(config: Any) -> int:
    """A configuration's width of a head. Raises ValueError where heads do not share keys evenly, or have no pairs."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // max(heads, 1)
    if kv_heads < 1 or heads < 1 or heads % kv_heads or head_dim < 2 or head_dim % 2:
        raise ValueError(
            f"{heads} heads of {head_dim} columns over {kv_heads} of keys and values; give a multiple of the latter, "
            "and an even head_dim"
        )
    return head_dim


def to_pairs(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """A weight [heads * head_dim, ...] of a checkpoint, its rows ordered so that pairs are adjacent: a copy.

    Raises RegistryError where the rows do not divide into heads.
    """
    check_heads(f"the tensor has {rows.shape[0]} rows", rows.shape[0], head_dim)
    halves = rows.unflatten(0, (-1, 2, head_dim // 2))
    return halves.transpose(1, 2).reshape(rows.shape)


def from_pairs(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """The inverse of `to_pairs`: a copy in a checkpoint's order."""
    check_heads(f"the tensor has {rows.shape[0]} rows", rows.shape[0], head_dim)
    pairs = rows.unflatten(0, (-1, head_dim // 2, 2))
    return pairs.transpose(1, 2).reshape(rows.shape)


def table(cos: torch.Tensor, sin: torch.Tensor, head_dim: int, heads: int, untouched: int = 0) -> torch.Tensor:
    """The kernels' operand: cos and sin in turn for each pair, repeated for each head, then pairs that stay.

    cos, sin: [tokens, head_dim] as Hugging Face's models make them (the second half repeats the first), or
    [tokens, head_dim / 2]. heads: those that turn. untouched: columns behind them, such as those of the values.
    Returns [tokens, heads * head_dim + untouched] in the dtype of cos. Raises RegistryError for other shapes, such as
    those of angles that turn only a part of a head.
    """
    if cos.dim() != 2 or cos.shape != sin.shape or cos.shape[1] * 2 not in (head_dim, 2 * head_dim) or head_dim % 2:
        raise RegistryError(
            f"cos has shape {list(cos.shape)} and sin {list(sin.shape)}; give both [tokens, {head_dim}] or half so wide"
        )
    if untouched % 2:
        raise RegistryError(f"untouched is {untouched}; columns come in pairs, give an even number")
    angles = torch.stack((cos[:, : head_dim // 2], sin[:, : head_dim // 2]), -1).flatten(-2)
    turned = angles.repeat(1, heads)
    if not untouched:
        return turned
    still = cos.new_zeros(untouched)
    still[0::2] = 1
    return torch.cat((turned, still.expand(len(cos), -1)), -1)
