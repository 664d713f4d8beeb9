"""The MLP of BERT, GPT-2 and ViT with the exact GELU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .operators import operator, trained_in, training


class GELUMLP(nn.Module):
    """fc2(gelu(fc1(x))), both with a bias: the first product with its bias and the GELU is one kernel.

    Where gradients are wanted and its kernels are there, the whole is the program mlp_gelu with its backward program.
    hidden, intermediate: widths. device, dtype: as for torch.nn.Linear.
    State dict: fc1.weight, fc1.bias, fc2.weight, fc2.bias, as for two torch.nn.Linear.
    """

    def __init__(self, hidden: int, intermediate: int, device: Any = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.fc1 = nn.Linear(hidden, intermediate, device=device, dtype=dtype)
        self.fc2 = nn.Linear(intermediate, hidden, device=device, dtype=dtype)
        self._operator, self._program = operator("linear_bias_gelu"), operator("mlp_gelu")
        self._trained_in = trained_in(self._program)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] to the same shape and dtype."""
        rows, parameters = x.reshape(-1, x.shape[-1]), (self.fc1.weight, self.fc1.bias, self.fc2.weight, self.fc2.bias)
        if type(self.fc2) is nn.Linear and training(self._trained_in, x, *parameters):
            whole: Any = self._program(rows, *parameters)[0]
            return whole.reshape(x.shape)
        y = self._operator(rows, self.fc1.weight, self.fc1.bias)
        return self.fc2(y).reshape(x.shape)
