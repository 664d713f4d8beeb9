"""State dicts between a checkpoint's order and that of the programs, both ways.

Programs see columns in adjacent pairs.  Checkpoints of Llama, Mistral and Qwen (the layout of Hugging Face) differ:

| tensor | checkpoint | program |
|---|---|---|
| rows of q_proj and k_proj in each head; q_norm, k_norm | a0, a1, ... b0, b1, ... (rotate-half) | a0, b0, a1, b1, ... |
| rows of v_proj, columns of o_proj | as they are | as they are |
| cos and sin | [M, head_dim] each, the two halves alike | one table: cos0, sin0, cos1, sin1, ... for each head |
| gate_proj, up_proj | apart | one weight, g0, u0, g1, u1, ... |

Queries and keys are reordered alike, so their products, and with them attention, stay as they are.  Everything here
only moves values: there and back is exact, in any dtype, and gradients flow through.  `rotary` reorders one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from ...tasks.layout import interleave
from ..errors import RegistryError
from .rotary import check_heads, from_pairs, to_pairs

ROTATED = ("q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias", "q_norm.weight", "k_norm.weight")
"""Ends of the keys whose order changes."""
OWNERS = frozenset(end.split(".")[0] for end in ROTATED)
"""Modules whose other tensors, such as a quantised weight's scales, nobody here knows how to reorder."""


def state_to_pairs(state: Mapping[str, torch.Tensor], head_dim: int) -> dict[str, torch.Tensor]:
    """A checkpoint's state dict with rotary tensors (`ROTATED`) in adjacent pairs; keys and other tensors stay.

    Raises RegistryError, by its key, for a tensor that does not divide into heads of head_dim, and for one of a rotary
    projection or norm that is none of these, such as a LoRA adapter or the scales of a quantised weight.
    """
    return _reordered(state, head_dim, to_pairs)


def state_from_pairs(state: Mapping[str, torch.Tensor], head_dim: int) -> dict[str, torch.Tensor]:
    """The inverse of `state_to_pairs`."""
    return _reordered(state, head_dim, from_pairs)


def join_qkv(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, head_dim: int) -> torch.Tensor:
    """w_qkv of a program from a checkpoint's three weights (or biases), each [heads * head_dim, ...]."""
    return torch.cat((to_pairs(q, head_dim), to_pairs(k, head_dim), v))


def split_qkv(w: torch.Tensor, heads: int, kv_heads: int, head_dim: int) -> tuple[torch.Tensor, ...]:
    """The checkpoint's q, k and v from w_qkv: the inverse of `join_qkv`. Raises RegistryError for other head counts."""
    if w.shape[0] != (heads + 2 * kv_heads) * head_dim:
        raise RegistryError(
            f"w_qkv has {w.shape[0]} rows, and {heads} query heads with {kv_heads} of keys and of values, each of "
            f"{head_dim}, make {(heads + 2 * kv_heads) * head_dim}; pass the model's own numbers"
        )
    q, k, v = w.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim])
    return from_pairs(q, head_dim), from_pairs(k, head_dim), v


def join_norms(
    q_norm: torch.Tensor, k_norm: torch.Tensor, heads: int, kv_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """gamma and plain of qkv_qknorm_rope from a checkpoint's two norm weights [head_dim]; each [(H + 2 G) head_dim]."""
    head_dim = len(q_norm)
    if q_norm.shape != k_norm.shape or q_norm.dim() != 1:
        raise RegistryError(
            f"q_norm has shape {list(q_norm.shape)} and k_norm {list(k_norm.shape)}; give both [head_dim]"
        )
    values = q_norm.new_zeros(kv_heads * head_dim)
    gamma = torch.cat((to_pairs(q_norm, head_dim).repeat(heads), to_pairs(k_norm, head_dim).repeat(kv_heads), values))
    plain = torch.zeros_like(gamma)
    plain[len(gamma) - len(values) :] = 1
    return gamma, plain


def split_norms(gamma: torch.Tensor, heads: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A checkpoint's q_norm and k_norm from gamma: the inverse of `join_norms`.

    Raises RegistryError where it is shorter than the queries' heads and one of the keys'.
    """
    check_heads(f"gamma has {len(gamma)} elements", len(gamma), head_dim)
    if len(gamma) < (heads + 1) * head_dim:
        raise RegistryError(
            f"gamma has {len(gamma)} elements, and {heads} query heads and one of keys, each of {head_dim}, make "
            f"{(heads + 1) * head_dim}; pass the model's own numbers"
        )
    q, k = gamma[:head_dim], gamma[heads * head_dim : (heads + 1) * head_dim]
    return from_pairs(q, head_dim), from_pairs(k, head_dim)


def cos_sin(table: torch.Tensor, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A checkpoint's cos and sin, each [M, head_dim], from the first head of a table: the inverse of `rotary.table`."""
    if table.dim() != 2 or table.shape[1] < head_dim:
        raise RegistryError(f"the table has shape {list(table.shape)}; give [M, N] of whole heads of {head_dim}")
    check_heads(f"a head of the table has {head_dim} columns", head_dim, head_dim)
    cos, sin = table[:, :head_dim].unflatten(-1, (-1, 2)).unbind(-1)
    return cos.repeat(1, 2), sin.repeat(1, 2)


def join_gate_up(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """w_up [2F, D] of a program from gate_proj and up_proj [F, D]. Raises RegistryError where their shapes differ."""
    if gate.shape != up.shape:
        raise RegistryError(f"gate has shape {list(gate.shape)} and up {list(up.shape)}; give both [F, D]")
    return interleave(torch.cat((gate, up)), 0)


def split_gate_up(w_up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """gate_proj and up_proj from w_up, as views: the inverse of `join_gate_up`."""
    return w_up[0::2], w_up[1::2]


def _reordered(
    state: Mapping[str, torch.Tensor], head_dim: int, order: Callable[[torch.Tensor, int], torch.Tensor]
) -> dict[str, torch.Tensor]:
    made = dict(state)
    for key, tensor in state.items():
        parts = key.split(".")
        if OWNERS.isdisjoint(parts):
            continue
        if ".".join(parts[-2:]) not in ROTATED:
            raise RegistryError(
                f"{key} belongs to a rotary projection or norm, and only {', '.join(ROTATED)} can be reordered; merge "
                "or dequantise the weight first, or take the key out"
            )
        check_heads(f"{key} has {len(tensor)} rows", len(tensor), head_dim)
        made[key] = order(tensor, head_dim)
    return made
