"""Attention as Hugging Face's models call it, by scaled_dot_product_attention."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, cache: Any, layer_idx: int
) -> torch.Tensor:
    """q [batch, tokens, heads, head_dim], k and v with as many heads or a divisor of them; [batch, tokens, width].

    mask: [batch, 1, tokens, keys], boolean or added; causal without one. cache: Hugging Face's key-value cache.
    """
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    if cache is not None:
        k, v = cache.update(k, v, layer_idx)
    groups = q.shape[1] // k.shape[1]
    if groups > 1 and mask is not None:  # the kernels that take a mask want as many heads of each
        k, v = (part.repeat_interleave(groups, 1) for part in (k, v))
        groups = 1
    causal = mask is None and q.shape[2] > 1
    o = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=groups > 1)
    return o.transpose(1, 2).flatten(-2)


def cache_of(named: dict[str, Any]) -> Any:
    """The key-value cache among a layer's arguments, under either of its names."""
    found = named.get("cache")
    return named.get("past_key_values") if found is None else found
