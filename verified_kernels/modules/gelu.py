"""The MLP of BERT, GPT-2 and ViT with the exact GELU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .operators import operator


class GELUMLP(nn.Module):
    """fc2(gelu(fc1(x))), both with a bias: the first product with its bias and the GELU is one kernel.

    hidden, intermediate: widths. device, dtype: as for torch.nn.Linear.
    State dict: fc1.weight, fc1.bias, fc2.weight, fc2.bias, as for two torch.nn.Linear.
    """

    def __init__(self, hidden: int, intermediate: int, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.fc1 = nn.Linear(hidden, intermediate, device=device, dtype=dtype)
        self.fc2 = nn.Linear(intermediate, hidden, device=device, dtype=dtype)
        self._operator = operator("linear_bias_gelu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] to the same shape and dtype."""
        y = self._operator(x.reshape(-1, x.shape[-1]), self.fc1.weight, self.fc1.bias)
        return self.fc2(y).reshape(x.shape)
