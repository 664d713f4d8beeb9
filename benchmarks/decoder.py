"""A Llama-style decoder in plain PyTorch, with the names of its parts and weights as Hugging Face has them."""

from __future__ import annotations

import torch
from codasmith.verified_kernels.modules import LlamaShape
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu


class Attention(nn.Module):
    """Causal attention with rotary embedding and grouped queries."""

    def __init__(self, shape: LlamaShape):
        super().__init__()
        self.heads, self.kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        self.head_dim = shape.head_dim or shape.hidden_size // self.heads
        self.q_proj = nn.Linear(shape.hidden_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            p(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = (t * cos + turned(t) * sin for t in (q, k))
        o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.o_proj(o.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: LlamaShape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, shape: LlamaShape):
        super().__init__()
        self.self_attn, self.mlp = Attention(shape), MLP(shape)
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers, norm; the projection to the vocabulary is applied by the loss."""

    def __init__(self, shape: LlamaShape, layers: int, vocabulary: int):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(vocabulary, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(layers))
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.lm_head = nn.Linear(shape.hidden_size, vocabulary, bias=False)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [batch, length] to normed hidden states [batch, length, hidden]."""
        x = self.embed_tokens(tokens)
        head_dim = self.shape.head_dim or self.shape.hidden_size // self.shape.num_attention_heads
        cos, sin = angles(tokens.shape[1], head_dim, x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def angles(length: int, head_dim: int, like: torch.Tensor, base: float = 10000.0) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [length, head_dim], the second half as the first, in like's dtype."""
    frequencies = base ** (-torch.arange(0, head_dim, 2, device=like.device, dtype=torch.float32) / head_dim)
    turns = torch.outer(torch.arange(length, device=like.device, dtype=torch.float32), frequencies)
    turns = torch.cat((turns, turns), -1)
    return turns.cos().to(like.dtype), turns.sin().to(like.dtype)


def turned(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)
