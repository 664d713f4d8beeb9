"""The layers of Llama: attention by scaled_dot_product_attention, everything between two attentions in fused kernels.

`LlamaBlock` is one layer; `LlamaLayers` is a stack of them that defers each norm into the next layer's product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..errors import InputError
from .attention import attend, cache_of
from .deferred import Kernels, Normed, Turns, first_norm, gated, projected, rotated
from .rotary import from_pairs, head_dim_of, table, to_pairs
from .swiglu import SwiGLUMLP


@dataclass(frozen=True)
class LlamaShape:
    """What a block needs of a configuration, by the names that Hugging Face's LlamaConfig has."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int | None = None
    """hidden_size / num_attention_heads where it is not given."""
    rms_norm_eps: float = 1e-6


class LlamaBlock(nn.Module):
    """One decoder layer: x + attention(norm(x)), then x + SwiGLU(norm(x)); no biases, no dropout.

    config: Hugging Face's LlamaConfig, or a LlamaShape. layer_idx: the layer's place in a key-value cache.
    State dict: as LlamaDecoderLayer's (input_layernorm, self_attn.q_proj, ..., mlp.down_proj). The projections of
    queries, keys and values are one parameter, self_attn.qkv_weight, in the order of `rotary`; gate and up another.
    """

    def __init__(self, config: Any, layer_idx: int = 0, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__()
        how = {"device": device, "dtype": dtype}
        self.self_attn = _Attention(config, layer_idx, **how)
        self.mlp = SwiGLUMLP(config.hidden_size, config.intermediate_size, **how)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps, **how)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps, **how)
        self._kernels = Kernels.loaded()

    def forward(self, hidden_states: torch.Tensor, *positions: Any, **named: Any) -> torch.Tensor:
        """See LlamaLayers.forward."""
        return run([self], hidden_states, *positions, **named)


class LlamaLayers(nn.Module):
    """A stack of blocks that a model runs in one call: its norms are deferred from layer to layer.

    Stands where a model keeps its list of layers: iterating over it gives the stack itself, once, so that
    `for layer in layers: x = layer(x, ...)` runs all blocks.  Parameters and state dict are those of the list.
    No ModuleList: what walks through one would come back here for ever, and fully_shard refuses it.
    """

    def __init__(self, blocks: Iterable[LlamaBlock]):
        super().__init__()
        for place, block in enumerate(blocks):
            self.add_module(str(place), block)

    @property
    def blocks(self) -> list[Any]:
        return list(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter((self,))

    def __getitem__(self, which: int | slice) -> Any:
        """A block; of a slice, a stack of its blocks, which is this one where they are all."""
        if not isinstance(which, slice):
            return self.blocks[which]
        return self if which.indices(len(self)) == (0, len(self), 1) else LlamaLayers(self.blocks[which])

    def forward(self, hidden_states: torch.Tensor, *positions: Any, **named: Any) -> torch.Tensor:
        """[batch, tokens, hidden] to the same shape.

        positions: cos and sin, each [tokens, head_dim], or with a batch before it, or half as wide; or the two as one
        tuple `position_embeddings`. attention_mask: [batch, 1, tokens, keys], boolean or added; causal without one.
        cache (or past_key_values): Hugging Face's. Other names are for other layers and are not looked at.
        """
        return run(self.blocks, hidden_states, *positions, **named)


def run(blocks: Sequence[LlamaBlock], hidden_states: torch.Tensor, *positions: Any, **named: Any) -> torch.Tensor:
    """All blocks in order; arguments as LlamaLayers.forward."""
    cos, sin = _angles(positions, named)
    if not blocks:
        return hidden_states
    wanted = blocks[0].input_layernorm.weight.shape[0]
    if hidden_states.dim() != 3 or hidden_states.shape[-1] != wanted:
        raise InputError(f"hidden_states has shape {list(hidden_states.shape)}; give it [batch, tokens, {wanted}]")
    mask, cache = named.get("attention_mask"), cache_of(named)
    batch, tokens, width = hidden_states.shape
    attention, kernels = blocks[0].self_attn, blocks[0]._kernels
    x = _cast(hidden_states.reshape(-1, width).contiguous(), hidden_states)
    cos, sin = (_by_row(part.to(x.dtype), batch) for part in (cos, sin))
    heads, kv_heads, head_dim = attention.heads, attention.kv_heads, attention.head_dim
    turns = Turns(
        table(cos, sin, head_dim, heads + kv_heads, kv_heads * head_dim), table(cos, sin, head_dim, 1), heads, kv_heads
    )
    weights = [_Weights.of(block, x) for block in blocks]
    normed = Normed(x, *first_norm(x, weights[0].norm, weights[0].eps))
    for block, these, following in zip(blocks, weights, [*weights[1:], None], strict=True):
        *parts, x = rotated(kernels, normed, these.norm, these.qkv, turns)
        q, k, v = (part.unflatten(0, (batch, tokens)) for part in parts)
        attended = attend(q, k, v, mask, cache, block.self_attn.layer_idx).flatten(0, 1)
        normed = projected(kernels, attended, these.o, x, these.post_norm, these.post_eps)
        behind, eps = (following.norm, following.eps) if following else (None, 0.0)
        normed = gated(kernels, normed, these.post_norm, these.gate_up, these.down, behind, eps)  # type: ignore[assignment]
    return normed.view(batch, tokens, width)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Weights:
    """A block's weights in the dtype that it computes in."""

    norm: torch.Tensor
    qkv: torch.Tensor
    o: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    eps: float
    post_eps: float

    @staticmethod
    def of(block: LlamaBlock, x: torch.Tensor) -> _Weights:
        attention, mlp, before, behind = (
            block.self_attn,
            block.mlp,
            block.input_layernorm,
            block.post_attention_layernorm,
        )
        return _Weights(
            norm=before.weight.to(x.dtype),
            qkv=attention.qkv_weight.to(x.dtype),
            o=attention.o_proj.weight.to(x.dtype),
            post_norm=behind.weight.to(x.dtype),
            gate_up=mlp.gate_up_weight.to(x.dtype),
            down=mlp.down_proj.weight.to(x.dtype),
            eps=_eps(before),
            post_eps=_eps(behind),
        )


class _Attention(nn.Module):
    """Queries, keys and values of one weight; query and key rows in the order of `rotary`."""

    def __init__(self, config: Any, layer_idx: int, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = head_dim_of(config)
        self.layer_idx = layer_idx
        joined = nn.Linear(
            config.hidden_size, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False, device=device, dtype=dtype
        )
        self.qkv_weight = joined.weight  # initialised as torch.nn.Linear does
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=False, device=device, dtype=dtype)
        self.register_state_dict_post_hook(_split)
        self.register_load_state_dict_pre_hook(_join)


_PARTS = ("q_proj.weight", "k_proj.weight", "v_proj.weight")


def _split(module: Any, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    joined = state.pop(f"{prefix}qkv_weight")
    state.update({f"{prefix}{n}": part for n, part in zip(_PARTS, split_weight(module, joined), strict=True)})


def _join(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Where a part is missing, loading says that qkv_weight is."""
    names = [f"{prefix}{n}" for n in _PARTS]
    if all(name in state for name in names):
        state[f"{prefix}qkv_weight"] = joined_weight(module, *(state.pop(name) for name in names))


def split_weight(attention: Any, joined: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k and v as checkpoints have them."""
    d = attention.head_dim
    q, k, v = joined.split((attention.heads * d, attention.kv_heads * d, attention.kv_heads * d))
    return from_pairs(q, d), from_pairs(k, d), v


def joined_weight(attention: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """qkv_weight of a checkpoint's parts."""
    return torch.cat((to_pairs(q, attention.head_dim), to_pairs(k, attention.head_dim), v))


def _angles(positions: tuple[Any, ...], named: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    found = named.get("position_embeddings")
    if found is None and len(positions) == 1 and isinstance(positions[0], tuple | list):
        found = positions[0]
    if found is None and len(positions) == 2:
        found = positions
    if found is None and "cos" in named and "sin" in named:
        found = named["cos"], named["sin"]
    if found is None or len(found) != 2:
        raise TypeError("a Llama block needs the rotary angles; pass cos and sin, or position_embeddings=(cos, sin)")
    return found[0], found[1]


def _by_row(part: torch.Tensor, batch: int) -> torch.Tensor:
    """cos or sin for each row of [batch * tokens]."""
    part = part.reshape(-1, *part.shape[-2:])
    return part.expand(batch, -1, -1).flatten(0, 1)


def _eps(norm: nn.RMSNorm) -> float:
    return torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps


def _cast(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    kind = like.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
