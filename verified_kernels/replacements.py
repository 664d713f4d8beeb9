"""What `patch` puts in the place of what: whether it may, how weights move over without a rounding, and back.

Each maker returns a Swap, or says in one clause why there is none.  A replacement answers a drawn input beside the
original first: names alone prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .modules import LlamaBlock, LlamaLayers, LlamaShape, RMSNormSwiGLUMLP, SwiGLUMLP
from .modules.llama import joined_weight, split_weight
from .modules.qknorm import QKNormAttention
from .modules.rotary import from_pairs, to_pairs

PROBED_TOKENS = 8
TOLERANCE = {torch.bfloat16: 2**-5, torch.float16: 2**-8}
GATED = ("gate_proj", "up_proj", "down_proj")
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
NORMS = ("input_layernorm", "post_attention_layernorm")


@dataclass
class Swap:
    """One replacement in a model: `owner.child` was `original` and is `made`."""

    owner: nn.Module
    child: str
    original: Any
    made: nn.Module
    give: Callable[[Any, Any], None]
    """Takes the original's weights away where the new module holds them: each weight is held once.

    It is told both, so that it holds neither: a copied model has copies of them.
    """
    restore: Callable[[Any, Any], None]
    """Puts the weights, as they are now, back into the original."""
    norm: tuple[str, nn.Module] | None = None
    """The norm that moved into the replacement, by its name in the owner."""

    def put(self) -> None:
        self.give(self.original, self.made)
        setattr(self.owner, self.child, self.made)
        if self.norm is not None:
            setattr(self.owner, self.norm[0], nn.Identity())

    def take_back(self) -> None:
        self.restore(self.original, self.made)
        self.original.train(self.made.training)
        setattr(self.owner, self.child, self.original)
        if self.norm is not None:
            setattr(self.owner, *self.norm)


def gated_mlp(owner: nn.Module, child: str, mlp: Any, norm: tuple[str, Any] | None) -> Swap | str:
    """gate_proj, up_proj, down_proj and SiLU, with the norm before it where that feeds nothing else."""
    why = _unfit(mlp, GATED) or _differing(mlp, ("gate_proj", "up_proj"))
    if why:
        return why
    widths = mlp.gate_proj.in_features, mlp.gate_proj.out_features
    if norm is None:
        made: SwiGLUMLP = SwiGLUMLP(*widths, device="meta")
    else:
        made = RMSNormSwiGLUMLP(*widths, eps=_eps(norm[1]), device="meta")
        made.norm.weight = norm[1].weight
    made.gate_up_weight = _joined((mlp.gate_proj.weight, mlp.up_proj.weight))
    made.down_proj = mlp.down_proj
    made.train(mlp.training)
    weight = made.gate_up_weight
    x = _drawn(PROBED_TOKENS, weight.shape[1], like=weight)
    why = _compared(lambda: mlp(x if norm is None else norm[1](x)), lambda: made(x))
    if why:
        return why

    return Swap(owner, child, mlp, made, _give_mlp, _restore_mlp, norm)


def _give_mlp(mlp: Any, made: Any) -> None:  # gate and up become views of the joined weight
    mlp.gate_proj.weight.data, mlp.up_proj.weight.data = made.gate_up_weight.data.chunk(2)


def _restore_mlp(mlp: Any, made: Any) -> None:
    _fill(zip((mlp.gate_proj, mlp.up_proj), made.gate_up_weight.data.chunk(2), strict=True))


def qknorm_attention(owner: nn.Module, child: str, attention: Any) -> Swap | str:
    """Qwen3's attention: q_norm and k_norm over each head, then rotary embedding."""
    why = _unfit(attention, PROJECTIONS) or _attends_otherwise(attention)
    if why:
        return why
    shape = _shape(attention, 0, _eps(attention.q_norm))
    made = QKNormAttention(shape, getattr(attention, "layer_idx", 0), device="meta")
    for name, module in _turned(attention).items():
        weight = to_pairs(module.weight.detach(), made.head_dim)
        setattr(made, name, nn.Parameter(weight, requires_grad=module.weight.requires_grad))
    made.v_proj, made.o_proj = attention.v_proj, attention.o_proj
    made.train(attention.training)
    x = _drawn(1, PROBED_TOKENS, shape.hidden_size, like=made.q_weight)
    angles = _angles(made.head_dim, x)
    why = _compared(
        lambda: attention(x, position_embeddings=angles, attention_mask=_causal(x))[0],
        lambda: made(x, position_embeddings=angles, attention_mask=_causal(x))[0],
    )
    if why:
        return why

    return Swap(owner, child, attention, made, _give_attention, _restore_attention)


def _turned(attention: Any) -> dict[str, Any]:
    """What of an attention has another order of rows in a QKNormAttention, by the name there."""
    found = {"q_weight": attention.q_proj, "k_weight": attention.k_proj}
    return found | {"q_gamma": attention.q_norm, "k_gamma": attention.k_norm}


def _give_attention(attention: Any, made: Any) -> None:
    for module in _turned(attention).values():
        module.weight.data = module.weight.data.new_empty(0)


def _restore_attention(attention: Any, made: Any) -> None:
    turned = _turned(attention).items()
    _fill((module, from_pairs(getattr(made, name).data, made.head_dim)) for name, module in turned)


def looks_like_llama(layers: nn.Module) -> bool:
    """Whether this is a list of layers with the parts of Llama's, and nothing else that has weights."""
    wanted = {"self_attn", "mlp", *NORMS}
    return (
        isinstance(layers, nn.ModuleList)
        and len(layers) > 0
        and all(
            _names(layer) == wanted and _names(layer.self_attn) == set(PROJECTIONS) and set(GATED) <= _names(layer.mlp)
            for layer in layers
        )
    )


def _names(module: Any) -> set[str]:
    return {name for name, _ in module.named_children()}


def llama_layers(owner: nn.Module, child: str, layers: Any) -> Swap | str:
    """All decoder layers at once, their norms deferred from layer to layer."""
    blocks = []
    for i, layer in enumerate(layers):
        block = _block(layer, i)
        if isinstance(block, str):
            return f"layer {i}: {block}"
        blocks.append(block)
    return Swap(owner, child, layers, LlamaLayers(blocks), _give_layers, _restore_layers)


def _give_layers(layers: Any, made: LlamaLayers) -> None:
    for block, layer in zip(made.blocks, layers, strict=True):
        _give_mlp(layer.mlp, block.mlp)
        for name in PROJECTIONS[:3]:
            weight = getattr(layer.self_attn, name).weight
            weight.data = weight.data.new_empty(0)


def _restore_layers(layers: Any, made: LlamaLayers) -> None:
    for block, layer in zip(made.blocks, layers, strict=True):
        _restore_mlp(layer.mlp, block.mlp)
        parts = split_weight(block.self_attn, block.self_attn.qkv_weight.data)
        _fill(zip((getattr(layer.self_attn, n) for n in PROJECTIONS[:3]), parts, strict=True))


def _block(layer: Any, index: int) -> LlamaBlock | str:
    attention, mlp = layer.self_attn, layer.mlp
    why = _unfit(attention, PROJECTIONS) or _unfit(mlp, GATED) or _attends_otherwise(attention)
    why = why or _differing(attention, PROJECTIONS[:3]) or _differing(mlp, ("gate_proj", "up_proj"))
    if not why and getattr(layer, "gradient_checkpointing", False):
        why = "it checkpoints its activations layer by layer, and a stack runs its layers as one"
    if why:
        return why
    shape = _shape(attention, mlp.gate_proj.out_features, _eps(layer.input_layernorm))
    block = LlamaBlock(shape, getattr(attention, "layer_idx", index), device="meta")
    for name in NORMS:
        getattr(block, name).weight, getattr(block, name).eps = getattr(layer, name).weight, _eps(getattr(layer, name))
    parts = [getattr(attention, name).weight for name in PROJECTIONS[:3]]
    joined = joined_weight(block.self_attn, *(part.detach() for part in parts))
    block.self_attn.qkv_weight = nn.Parameter(joined, requires_grad=parts[0].requires_grad)
    block.self_attn.o_proj, block.mlp.down_proj = attention.o_proj, mlp.down_proj
    block.mlp.gate_up_weight = _joined((mlp.gate_proj.weight, mlp.up_proj.weight))
    block.train(layer.training)
    x = _drawn(1, PROBED_TOKENS, shape.hidden_size, like=joined)
    cos, sin = angles = _angles(block.self_attn.head_dim, x)

    def original() -> torch.Tensor:
        try:
            return layer(x, position_embeddings=angles, attention_mask=_causal(x))
        except TypeError:
            return layer(x, cos, sin)

    return _compared(original, lambda: block(x, *angles)) or block


def _unfit(module: Any, parts: Iterable[str]) -> str:
    """Why these projections are not plain ones; empty if they are."""
    dtypes: set[torch.dtype] = set()
    for part in parts:
        linear = getattr(module, part)
        if type(linear) is not nn.Linear:
            return f"{part} is a {type(linear).__name__}, and a plain torch.nn.Linear is needed"
        if linear.bias is not None:
            return f"{part} has a bias, and the kernel has none"
        if type(linear.weight) is not nn.Parameter or type(linear.weight.data) is not torch.Tensor:
            kind = type(linear.weight.data).__name__  # quantised, or sharded over GPUs
            return f"the weight of {part} is a {kind}, and a plain tensor is needed"
        if linear.weight.is_meta:
            return f"{part} has no weights yet (meta device)"
        dtypes.add(linear.weight.dtype)
    return "its weights have different dtypes" if len(dtypes) > 1 else ""


def _differing(module: Any, parts: tuple[str, ...]) -> str:
    if len({getattr(module, part).weight.requires_grad for part in parts}) > 1:
        return f"one of {' and '.join(parts)} is frozen, and they become one parameter"
    return ""


def _attends_otherwise(attention: Any) -> str:
    """Why this attention is no causal softmax over all keys; empty as far as its settings tell."""
    if getattr(attention, "sliding_window", None):
        return "its attention has a sliding window"
    if getattr(attention, "attention_dropout", 0):
        return "its attention has dropout"
    how = getattr(getattr(attention, "config", None), "_attn_implementation", None)
    if how not in (None, "sdpa", "eager"):
        return f'its attention is "{how}", and scaled_dot_product_attention would take its place; load it with "sdpa"'
    return ""


def _shape(attention: Any, intermediate: int, eps: float) -> LlamaShape:
    width = attention.q_proj.in_features
    head_dim = getattr(attention, "head_dim", None) or width // attention.heads
    heads, kv_heads = (getattr(attention, n).out_features // head_dim for n in ("q_proj", "k_proj"))
    return LlamaShape(width, intermediate, heads, kv_heads, head_dim, eps)


def _eps(norm: Any) -> float:
    return getattr(norm, "variance_epsilon", None) or getattr(norm, "eps", None) or 1e-6


def _joined(parts: tuple[torch.Tensor, ...]) -> nn.Parameter:
    return nn.Parameter(torch.cat([p.detach() for p in parts]), requires_grad=parts[0].requires_grad)


def _fill(pairs: Iterable[tuple[Any, torch.Tensor]]) -> None:
    for module, weight in pairs:
        module.weight.data = weight.clone()


def _drawn(*shape: int, like: torch.Tensor) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(0)).to(like)


def _angles(head_dim: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    turns = torch.outer(torch.arange(PROBED_TOKENS), torch.linspace(1, 0.01, head_dim // 2)).repeat(1, 2)[None]
    return turns.cos().to(x), turns.sin().to(x)


def _causal(x: torch.Tensor) -> torch.Tensor:
    """As an addend, which every implementation of attention takes."""
    hidden = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
    return hidden.triu(1)[None, None]


@torch.no_grad()
def _compared(original: Callable[[], torch.Tensor], replacement: Callable[[], torch.Tensor]) -> str:
    """Why the replacement is none, by what both answer; empty if they agree as the dtype allows."""
    try:
        wanted = original()
        scale = wanted.abs().max().item()
        error = (replacement() - wanted).abs().max().item()
    except Exception as failure:  # a forward of another kind
        return f"it could not be tried on a drawn input: {type(failure).__name__}"
    if not error <= TOLERANCE.get(wanted.dtype, 2**-14) * scale:
        return (
            f"it computes something else (on a drawn input the answers differ by {error:.2g} at a scale of {scale:.2g})"
        )
    return ""
