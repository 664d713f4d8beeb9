"""Between products in the backward pass, one pass over each row: a kernel on a GPU, else its torch meaning."""

from __future__ import annotations

from functools import cache

import torch

from ...templates.rows import RowKernel, row_kernel


@cache
def kernel(name: str) -> RowKernel:
    """The row kernel of that name; imports Triton."""
    return row_kernel(name)


def unrotate(
    kernel: RowKernel, dy: torch.Tensor, y: torch.Tensor, table: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient through a rotation of pairs, and each row's sum of y * dy in float32.

    kernel: "rope_bwd". dy, y, table [M, N], contiguous. Returns [M, N] in dy's dtype and [M].
    """
    if not dy.is_cuda:
        return kernel.meaning(dy, y, table)
    dz, total = torch.empty_like(dy), torch.empty(len(dy), dtype=torch.float32, device=dy.device)
    kernel.launch(dy, y, table, dz, total)
    return dz, total


def qknorm_unrotate(
    kernel: RowKernel, dy: torch.Tensor, q: torch.Tensor, gamma: torch.Tensor, table: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient through a rotation and the RMSNorm of each head before it, and that of the norm's weight.

    kernel: "qknorm_rope_bwd". dy, q, table [M, heads * head_dim], contiguous; gamma [head_dim].
    Returns dq in q's dtype and dgamma [head_dim] in float32.
    """
    head_dim = len(gamma)
    weights = gamma.repeat(dy.shape[1] // head_dim)
    arguments = dy, q, weights, torch.zeros_like(weights), table, eps
    if dy.is_cuda:
        dq, parts = torch.empty_like(q), torch.empty(dy.shape[1], dtype=torch.float32, device=dy.device)
        kernel.launch(*arguments, dq, parts, head_dim=head_dim)
    else:
        dq, parts = kernel.meaning(*arguments, head_dim=head_dim)
    return dq, parts.unflatten(0, (-1, head_dim)).sum(0)


def norm_scale(
    kernel: RowKernel, x: torch.Tensor, gamma: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """x * gamma and rsqrt(mean of x^2 + eps) in float32. kernel: "rms_scale". x [M, N], contiguous; gamma [N]."""
    if not x.is_cuda:
        g, rstd = kernel.meaning(x, gamma, eps)
        return g, rstd.to(torch.float32)
    g, rstd = torch.empty_like(x), torch.empty(len(x), dtype=torch.float32, device=x.device)
    kernel.launch(x, gamma, eps, g, rstd)
    return g, rstd
