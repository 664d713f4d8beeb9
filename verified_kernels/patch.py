"""Put verified operators into an existing model, its weights kept, and take them out again.

The gated MLPs are found by their shape: `gate_proj`, `up_proj`, `down_proj` without biases and an activation that
is SiLU.  Where the model is one whose norm before the MLP feeds the MLP alone, the norm goes into the kernel too.
What a module computes is not taken from its name: each replacement answers a drawn input first, and one that
differs from the original is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .errors import RegistryError
from .modules import RMSNormSwiGLUMLP, SwiGLUMLP

NORM_BEFORE_MLP = frozenset({"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"})
"""Layers of transformers in which `post_attention_layernorm` feeds `mlp` and nothing else."""
NORM = "post_attention_layernorm"
PROBED_ROWS = 8
TOLERANCE = {torch.bfloat16: 2**-5, torch.float16: 2**-8}


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
    (apart from a norm's, which goes with its MLP).  Patch before an optimizer is made: gate and up become one
    parameter.
    """
    if _swaps(model):
        raise PatchError("the model is patched already; unpatch it first")
    report, swaps = Report(), []
    for name, layer in list(model.named_modules()):
        for child, mlp in list(layer.named_children()):
            if not {"gate_proj", "up_proj", "down_proj"} <= {n for n, _ in mlp.named_children()}:
                continue
            title = f"{name}.{child}".lstrip(".")
            why = _unfit(mlp)
            if why:
                report.kept[title] = why
                continue
            norm = getattr(layer, NORM, None) if type(layer).__name__ in NORM_BEFORE_MLP and child == "mlp" else None
            made = _made(mlp, norm)
            why = _differs(made, mlp, norm)
            if why:
                report.kept[title] = why
                continue
            swaps.append(_Swap(layer, child, mlp, made, norm))
            report.replaced[title] = type(made).__name__
            if norm is not None:
                report.replaced[f"{name}.{NORM}".lstrip(".")] = f"part of {title}"
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


@dataclass
class _Swap:
    layer: nn.Module
    child: str
    original: Any
    made: SwiGLUMLP
    norm: nn.Module | None

    def put(self) -> None:
        """The originals' gate and up become views of the joined weight: one copy of each weight in memory."""
        gate, up = self.made.gate_up_weight.data.chunk(2)
        self.original.gate_proj.weight.data, self.original.up_proj.weight.data = gate, up
        setattr(self.layer, self.child, self.made)
        if self.norm is not None:
            setattr(self.layer, NORM, nn.Identity())

    def take_back(self) -> None:
        gate, up = self.made.gate_up_weight.data.chunk(2)
        self.original.gate_proj.weight.data, self.original.up_proj.weight.data = gate.clone(), up.clone()
        self.original.train(self.made.training)
        setattr(self.layer, self.child, self.original)
        if self.norm is not None:
            setattr(self.layer, NORM, self.norm)


def _swaps(model: nn.Module) -> list[_Swap]:
    return model.__dict__.get("_codasmith_swaps", [])


def _unfit(mlp: Any) -> str:
    """Why this gated MLP cannot be replaced; empty if it can."""
    for part in ("gate_proj", "up_proj", "down_proj"):
        linear = getattr(mlp, part)
        if type(linear) is not nn.Linear:
            return f"{part} is a {type(linear).__name__}, and a plain torch.nn.Linear is needed"
        if linear.bias is not None:
            return f"{part} has a bias, and the kernel has none"
        if linear.weight.is_meta:
            return f"{part} has no weights yet (meta device)"
    if len({getattr(mlp, p).weight.dtype for p in ("gate_proj", "up_proj", "down_proj")}) > 1:
        return "its weights have different dtypes"
    if mlp.gate_proj.weight.requires_grad != mlp.up_proj.weight.requires_grad:
        return "one of gate_proj and up_proj is frozen, and they become one parameter"
    return ""


def _made(mlp: Any, norm: Any) -> SwiGLUMLP:
    gate, up, down = mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj
    with torch.no_grad():
        if norm is None:
            made: SwiGLUMLP = SwiGLUMLP(1, 1, device="meta")
        else:
            eps = getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6))
            made = RMSNormSwiGLUMLP(1, 1, eps=eps, device="meta")
            made.norm.weight = norm.weight
        made.gate_up_weight = nn.Parameter(torch.cat((gate, up)), requires_grad=gate.requires_grad)
    made.down_proj = down
    return made.train(mlp.training)


@torch.no_grad()
def _differs(made: SwiGLUMLP, mlp: Any, norm: Any) -> str:
    """Why the replacement is none, by what both answer; empty if they agree as the dtype allows."""
    weight = made.gate_up_weight
    generator = torch.Generator("cpu").manual_seed(0)
    x = torch.randn(PROBED_ROWS, weight.shape[1], generator=generator).to(weight)
    try:
        wanted = mlp(x if norm is None else norm(x))
        scale = wanted.abs().max().item()
        error = (made(x) - wanted).abs().max().item()
    except Exception as failure:  # a forward of another kind
        return f"it could not be tried on [rows, hidden]: {type(failure).__name__}"
    if not error <= TOLERANCE.get(weight.dtype, 2**-14) * scale:
        return (
            f"it computes something else (on a drawn input the answers differ by {error:.2g} at a scale of {scale:.2g})"
        )
    return ""
