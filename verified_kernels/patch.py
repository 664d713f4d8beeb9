"""Put verified operators into an existing model, its weights kept, and take them out again.

A list of layers with the parts of Llama's becomes one stack with deferred norms.  Elsewhere gated MLPs (`gate_proj`,
`up_proj`, `down_proj` without biases, SiLU) are replaced, with the norm before them where the model is one whose norm
feeds the MLP alone, and attention with QK-norm as in Qwen3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from .entangled import entangled, shared
from .errors import RegistryError
from .replacements import GATED, PROJECTIONS, Swap, gated_mlp, llama_layers, looks_like_llama, qknorm_attention

NORM_BEFORE_MLP = frozenset({"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"})
"""Layers of transformers in which `post_attention_layernorm` feeds `mlp` and nothing else."""
NORM = "post_attention_layernorm"


class PatchError(RegistryError):
    """A model in which nothing can be replaced, or that is not patched, and why."""


@dataclass
class Report:
    """What `patch` did, by the modules' names."""

    replaced: dict[str, str] = field(default_factory=dict)
    """What stands there now."""
    kept: dict[str, str] = field(default_factory=dict)
    """Why a module that looks like a candidate was left alone."""

    def __str__(self) -> str:
        rows = [f"replaced  {name}: {what}" for name, what in self.replaced.items()]
        return "\n".join(rows + [f"kept      {name}: {why}" for name, why in self.kept.items()])


def patch(model: nn.Module) -> Report:
    """Replace what verified operators can compute, in place. Raises PatchError where nothing can be.

    The weights move into the new modules without being rounded or trained anew; state dicts keep their keys
    (apart from a norm's that goes with its MLP).  Patch before an optimizer is made: weights that a kernel reads as
    one operand become one parameter.
    """
    if _swaps(model):
        raise PatchError("the model is patched already; unpatch it first")
    report, among = Report(), shared(model)
    swaps = _stacks(model, report, among)
    swaps += _parts(model, report, [id(swap.original) for swap in swaps], among)
    if not swaps:
        reasons = "; ".join(f"{n}: {w}" for n, w in report.kept.items()) or (
            "it has no gated MLP with gate_proj, up_proj and down_proj"
        )
        raise PatchError(
            f"nothing in this {type(model).__name__} can be replaced ({reasons}); use the modules directly"
        )
    for swap in swaps:
        swap.put()
    model.__dict__["_codasmith_swaps"] = swaps
    return report


def unpatch(model: nn.Module) -> None:
    """Put the original modules back, with the weights as they are now. Raises PatchError where nothing is patched."""
    swaps = _swaps(model)
    if not swaps:
        raise PatchError("the model is not patched; there is nothing to restore")
    for swap in reversed(swaps):
        swap.take_back()
    del model.__dict__["_codasmith_swaps"]


def _stacks(model: nn.Module, report: Report, among: frozenset[int]) -> list[Swap]:
    swaps: list[Swap] = []
    for name, owner in list(model.named_modules()):
        for child, layers in list(owner.named_children()):
            if looks_like_llama(layers):
                title = f"{name}.{child}".lstrip(".")
                _enter(entangled(layers, among) or llama_layers(owner, child, layers), title, report, swaps)
    return swaps


def _parts(model: nn.Module, report: Report, done: list[int], among: frozenset[int]) -> list[Swap]:
    swaps: list[Swap] = []
    inside = {id(m) for module in model.modules() if id(module) in done for m in module.modules()}
    for name, layer in list(model.named_modules()):
        if id(layer) in inside:
            continue
        for child, part in list(layer.named_children()):
            title, names = f"{name}.{child}".lstrip("."), {n for n, _ in part.named_children()}
            if set(GATED) <= names:
                norm = (
                    getattr(layer, NORM, None) if type(layer).__name__ in NORM_BEFORE_MLP and child == "mlp" else None
                )
                feeds = norm is not None and not entangled(norm, among)
                swap = entangled(part, among) or gated_mlp(layer, child, part, (NORM, norm) if feeds else None)
                if _enter(swap, title, report, swaps) and feeds:
                    report.replaced[f"{name}.{NORM}".lstrip(".")] = f"part of {title}"
            elif {*PROJECTIONS, "q_norm", "k_norm"} <= names:
                _enter(entangled(part, among) or qknorm_attention(layer, child, part), title, report, swaps)
    return swaps


def _enter(swap: Swap | str, title: str, report: Report, swaps: list[Swap]) -> bool:
    if isinstance(swap, str):
        report.kept[title] = swap
        return False
    swaps.append(swap)
    count = f" of {len(swap.original)} blocks" if isinstance(swap.original, nn.ModuleList) else ""
    report.replaced[title] = type(swap.made).__name__ + count
    return True


def _swaps(model: nn.Module) -> list[Swap]:
    return model.__dict__.get("_codasmith_swaps", [])
