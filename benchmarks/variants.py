"""The ways of running the decoder that benchmarks/train.py compares.

Each takes a fresh model and returns the function that makes its loss of tokens and targets.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from codasmith.verified_kernels.modules import LinearCrossEntropy
from codasmith.verified_kernels.patch import patch
from decoder import Decoder
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Tokens and targets, each [batch, length], to the mean loss."""


def eager(model: Decoder) -> Step:
    def step(tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model.lm_head(model(tokens)).flatten(0, -2).float(), target.flatten())

    return step


def compiled(model: Decoder, backend: str = "inductor") -> Step:
    return torch.compile(eager(model), backend=backend)


def liger(model: Decoder) -> Step:
    """Liger's RMSNorm, SwiGLU and fused linear cross-entropy; its rotary embedding. Raises ImportError."""
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss, LigerRMSNorm, liger_rotary_pos_emb

    def attention(self, x, cos, sin):
        q, k, v = (
            p(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = liger_rotary_pos_emb(q, k, cos[None], sin[None])
        o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.o_proj(o.transpose(1, 2).flatten(-2))

    def mlp(self, x):
        return self.down_proj(LigerSiLUMulFunction.apply(self.gate_proj(x), self.up_proj(x)))

    for owner in list(model.modules()):
        if type(owner).__name__ in ("Attention", "MLP"):
            owner.forward = (attention if type(owner).__name__ == "Attention" else mlp).__get__(owner)
        for name, child in list(owner.named_children()):
            if isinstance(child, nn.RMSNorm):
                norm = LigerRMSNorm(child.weight.shape[0], eps=child.eps).to(child.weight)
                norm.weight = child.weight
                setattr(owner, name, norm)
    fused = LigerFusedLinearCrossEntropyLoss()
    return lambda tokens, target: fused(model.lm_head.weight, model(tokens).flatten(0, -2), target.flatten())


def ours(model: Decoder) -> Step:
    report = patch(model)
    assert set(report.replaced) == {"layers"}, report
    head = LinearCrossEntropy(model.shape.hidden_size, model.lm_head.out_features, device="meta")
    head.weight = model.lm_head.weight
    return lambda tokens, target: head(model(tokens), target)


def ours_compiled(model: Decoder, backend: str = "inductor") -> Step:
    """The patched model in one graph: the kernels as they are, and no Python between them."""
    return torch.compile(ours(model), backend=backend, fullgraph=True)


VARIANTS: dict[str, Callable[[Decoder], Step]] = {
    "eager": eager,
    "compile": compiled,
    "liger": liger,
    "ours": ours,
    "ours-compiled": ours_compiled,
}
