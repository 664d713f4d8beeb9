"""Queries and keys as Qwen3 makes them: projection, RMSNorm of each head, rotary embedding, in one kernel each."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import rms_norm

from ..operator import Operator
from . import rows
from .attention import attend, cache_of
from .operators import operator
from .rotary import from_pairs, head_dim_of, table, to_pairs

HEAD_DIM = 128
"""Of the kernel, whose tiles hold whole heads."""
EPS = 1e-6
"""Of the kernel."""


class QKNormRoPE(nn.Module):
    """rope(norm(q_proj(x))) and rope(norm(k_proj(x))) without biases, the norms over each head.

    config: Hugging Face's Qwen3Config or a LlamaShape (hidden_size, num_attention_heads, num_key_value_heads,
    head_dim, rms_norm_eps). State dict: q_proj.weight, k_proj.weight, q_norm.weight, k_norm.weight, as Qwen3Attention
    has them; the parameters hold their rows in the order of `rotary`.
    Heads of 128 and eps 1e-6 run the kernels, others plain PyTorch.
    """

    def __init__(self, config: Any, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = head_dim_of(config)
        self.eps = config.rms_norm_eps
        how = {"device": device, "dtype": dtype}
        self.q_weight = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False, **how).weight
        self.k_weight = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False, **how).weight
        self.q_gamma = nn.Parameter(torch.ones(self.head_dim, **how))
        self.k_gamma = nn.Parameter(torch.ones(self.head_dim, **how))
        self._plain, self._kept = (
            operator("linear_qknorm_rope", "linear_qknorm_rope_q"),
            operator("linear_qknorm_rope_q"),
        )
        self.register_state_dict_post_hook(_split)
        self.register_load_state_dict_pre_hook(_join)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x [batch, tokens, hidden]; cos, sin [(batch,) tokens, head_dim] or half as wide.

        Returns queries [batch, tokens, heads, head_dim] and keys [batch, tokens, kv_heads, head_dim], the columns of
        each head in the order of `rotary`: alike in both, so that attention is what it would be.
        """
        batch = x.shape[0]
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        if torch.is_autocast_enabled(x.device.type):
            flat = flat.to(torch.get_autocast_dtype(x.device.type))
        cos, sin = (p.to(flat.dtype).reshape(-1, *p.shape[-2:]).expand(batch, -1, -1).flatten(0, 1) for p in (cos, sin))
        angles = table(cos, sin, self.head_dim, max(self.heads, self.kv_heads))
        q, k = (
            self._one(flat, w, g, angles) for w, g in ((self.q_weight, self.q_gamma), (self.k_weight, self.k_gamma))
        )
        shape = (*x.shape[:-1], -1, self.head_dim)
        return q.view(shape), k.view(shape)

    def _one(self, x: torch.Tensor, w: torch.Tensor, gamma: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        w, gamma = w.to(x.dtype), gamma.to(x.dtype)
        angles = angles[:, : len(w)].contiguous()
        if self.head_dim != HEAD_DIM or self.eps != EPS:
            return _reference(x, w, gamma, angles, self.eps)
        if torch.is_grad_enabled() and any(t.requires_grad for t in (x, w, gamma)):
            return _Turned.apply(self._kept, x, w, gamma, angles)
        found = self._plain(x, w, gamma.repeat(len(w) // HEAD_DIM), angles)
        return found[0] if isinstance(found, tuple) else found


class QKNormAttention(QKNormRoPE):
    """Qwen3's attention, its queries and keys by QKNormRoPE and the rest as it is. State dict: as Qwen3Attention's.

    layer_idx: the layer's place in a key-value cache.
    """

    def __init__(self, config: Any, layer_idx: int = 0, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__(config, device, dtype)
        self.layer_idx = layer_idx
        how = {"bias": False, "device": device, "dtype": dtype}
        self.v_proj = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, **how)
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.hidden_size, **how)

    def forward(  # type: ignore[override]
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        **named: Any,
    ) -> tuple[torch.Tensor, None]:
        """[batch, tokens, hidden] to the same shape, and None for the weights of attention, which do not exist."""
        q, k = super().forward(hidden_states, *position_embeddings)
        v = self.v_proj(hidden_states).unflatten(-1, (-1, self.head_dim))
        return self.o_proj(attend(q, k, v, attention_mask, cache_of(named), self.layer_idx)), None


class _Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: Operator, x, w, gamma, angles):  # type: ignore[override]
        y, q = kernel(x, w, gamma.repeat(len(w) // HEAD_DIM), angles)
        ctx.save_for_backward(x, w, gamma, angles, q)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy):  # type: ignore[override]
        x, w, gamma, angles, q = ctx.saved_tensors
        dq, grad_gamma = rows.qknorm_unrotate(dy.contiguous(), q, gamma, angles, EPS)
        _, want_x, want_w, _, _ = ctx.needs_input_grad
        return None, dq @ w if want_x else None, dq.t() @ x if want_w else None, grad_gamma.to(gamma.dtype), None


def _reference(x: torch.Tensor, w: torch.Tensor, gamma: torch.Tensor, angles: torch.Tensor, eps: float) -> torch.Tensor:
    normed = rms_norm((x @ w.t()).unflatten(-1, (-1, len(gamma))), (len(gamma),), gamma, eps)
    a, b = normed.flatten(-2).unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


_NAMES = {
    "q_weight": "q_proj.weight",
    "k_weight": "k_proj.weight",
    "q_gamma": "q_norm.weight",
    "k_gamma": "k_norm.weight",
}


def _split(module: Any, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    for ours, theirs in _NAMES.items():
        state[prefix + theirs] = from_pairs(state.pop(prefix + ours), module.head_dim)


def _join(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for ours, theirs in _NAMES.items():
        if prefix + theirs in state:
            state[prefix + ours] = to_pairs(state.pop(prefix + theirs), module.head_dim)
