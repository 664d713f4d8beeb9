"""The gated MLP of Llama, Qwen and Mistral, and the same with the norm before it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from ...tasks.layout import interleave
from ..errors import InputError
from . import rows as row_kernels
from .operators import operator, trained_in, training

_HALVES = ("gate_proj.weight", "up_proj.weight")


class SwiGLUMLP(nn.Module):
    """down_proj(silu(gate_proj(x)) * up_proj(x)) without biases: the two products and the gate are one kernel.

    Where gradients are wanted and its kernels are there, the whole is the program mlp_swiglu, whose backward program
    makes no product anew; it reads the rows of gate and up in turn, which costs one copy of that weight.
    hidden, intermediate: widths. device, dtype: as for torch.nn.Linear.
    The kernel reads [gate; up] as one operand, so that is the parameter: gate_up_weight [2 intermediate, hidden].
    State dict: gate_proj.weight, up_proj.weight, down_proj.weight; saving splits (views, no copy), loading joins.
    """

    def __init__(self, hidden: int, intermediate: int, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.gate_up_weight = nn.Parameter(torch.empty(2 * intermediate, hidden, device=device, dtype=dtype))
        nn.init.uniform_(self.gate_up_weight, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))  # as torch.nn.Linear does
        self.down_proj = nn.Linear(intermediate, hidden, bias=False, device=device, dtype=dtype)
        self._operator, self._program = self._load(), operator("mlp_swiglu")
        self._trained_in = trained_in(self._program)
        self.register_state_dict_post_hook(_split)
        self.register_load_state_dict_pre_hook(_join)

    def _load(self):
        # The first writes the gated product alone; the second also its halves, which nobody reads here.
        return operator("linear_swiglu_o", "linear_swiglu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] to the same shape and dtype."""
        trained = self._trained(x)
        if trained is not None:
            return trained
        outputs = self._operator(x.reshape(-1, x.shape[-1]), self.gate_up_weight)
        gated = outputs[-1] if isinstance(outputs, tuple) else outputs
        return self.down_proj(gated).reshape(x.shape)

    def _trained(self, x: torch.Tensor) -> torch.Tensor | None:
        """The answer by the program that has a gradient of its own; None where it is not to be used."""
        up, down = self.gate_up_weight, self.down_proj
        if type(down) is not nn.Linear or not training(self._trained_in, x, up, down.weight):
            return None
        y: Any = self._program(x.reshape(-1, x.shape[-1]), interleave(up, 0), down.weight)[0]
        return y.reshape(x.shape)


class RMSNormSwiGLUMLP(SwiGLUMLP):
    """An RMSNorm and the SwiGLU MLP behind it: the norm's row scale is applied to the product, in the kernel.

    eps: the norm's. State dict: norm.weight besides SwiGLUMLP's.
    As RMSNorm(x) W = r ((x * norm.weight) W), only the weight is applied before the product.  Where gradients are
    wanted and the program mlp_swiglu has its kernels, PyTorch's RMSNorm and that program take its place.
    """

    def __init__(
        self, hidden: int, intermediate: int, eps: float = 1e-6, device: Any = None, dtype: torch.dtype | None = None
    ):
        super().__init__(hidden, intermediate, device=device, dtype=dtype)
        self._eps = eps
        self.norm = nn.RMSNorm(hidden, eps=eps, device=device, dtype=dtype)

    def _load(self):
        return operator("rmsnorm_swiglu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] to the same shape and dtype."""
        weight = self.norm.weight
        if x.shape[-1:] != weight.shape:
            raise InputError(f"x has shape {list(x.shape)}; give it [..., {weight.shape[0]}]")
        if training(self._trained_in, x, weight, self.gate_up_weight, self.down_proj.weight):
            trained = self._trained(self.norm(x))
            if trained is not None:
                return trained
        rows = x.reshape(-1, x.shape[-1])
        if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
            scaled, rstd = rows * weight, torch.rsqrt(rows.float().square().mean(-1) + self._eps)
        else:
            scaled, rstd = row_kernels.norm_scale(rows.contiguous(), weight, self._eps)
        gated = self._operator(scaled, self.gate_up_weight, rstd)
        return self.down_proj(gated).reshape(x.shape)


def _split(module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    joined = state.pop(f"{prefix}gate_up_weight")
    state.update({f"{prefix}{name}": half for name, half in zip(_HALVES, joined.chunk(2), strict=True)})


def _join(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Where a half is missing, loading says that gate_up_weight is: names the other and leaves both as they are."""
    halves = [f"{prefix}{name}" for name in _HALVES]
    if all(name in state for name in halves):
        state[f"{prefix}gate_up_weight"] = torch.cat([state.pop(name) for name in halves])
