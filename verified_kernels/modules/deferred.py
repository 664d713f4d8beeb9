"""The Llama block between two attentions, its norms deferred into the products behind them, forward and backward.

RMSNorm(x) W^T = r ((x gamma) W^T) with one r a row: the product that makes x also writes g = x gamma and the sums of
squares that give r, and the next product's epilogue multiplies by r.  Backward, the row statistic that a norm needs is
reduced by whoever makes the gradient behind it (CODA, arXiv 2605.19269).

A norm travels as `Normed`: the residual stream x, and g and r, which carry no gradient of their own.  Each function
that reads a norm also hands x on, so that the gradient of the residual path arrives in its backward and is added in
the same kernel that makes the norm's.
Tensors are [tokens, width], contiguous; weights [out, in] as in torch.nn.Linear, gate and up as halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from ..operator import Operator
from . import rows
from .operators import operator


class Normed(NamedTuple):
    """The residual stream, and what of its norm is ready."""

    x: torch.Tensor
    g: torch.Tensor
    """x * gamma."""
    rstd: torch.Tensor
    """rsqrt(mean of x^2 + eps), float32."""


class Turns(NamedTuple):
    """The rotation of queries and keys: as a kernel's operand, and what its gradient needs."""

    table: torch.Tensor
    """[M, (heads + 2 kv_heads) * head_dim], as `rotary.table` makes it."""
    head: torch.Tensor
    """[M, head_dim]: the columns of one head."""
    heads: int
    kv_heads: int


@dataclass(frozen=True)
class Kernels:
    """The operators of a block."""

    project: Operator
    rotate: Operator
    gate: Operator
    gate_kept: Operator
    add: Operator
    norm_backward: Operator
    gate_backward: Operator

    @staticmethod
    def loaded() -> Kernels:
        return Kernels(
            project=operator("residual_partial_rmsnorm"),
            rotate=operator("rmsnorm_rope"),
            gate=operator("rmsnorm_swiglu"),
            gate_kept=operator("rmsnorm_swiglu_z"),
            add=operator("linear_alpha_beta_residual"),
            norm_backward=operator("residual_rmsnorm_bwd"),
            gate_backward=operator("swiglu_bwd"),
        )


@torch.no_grad()
def first_norm(x: torch.Tensor, gamma: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """g and rstd of a norm with no product before it."""
    return rows.norm_scale(x, gamma, eps)


def rotated(
    kernels: Kernels, normed: Normed, gamma: torch.Tensor, w: torch.Tensor, turns: Turns
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """RMSNorm, product with w [N, d], rotation of column pairs: queries [M, heads, head_dim], keys and values
    [M, kv_heads, head_dim], which share one tensor's memory; and x, handed on."""
    if _wanted(normed.x, gamma, w):
        return _Rotated.apply(kernels, *normed, gamma, w, *turns)
    y: Any = kernels.rotate(normed.g, w, normed.rstd, turns.table)
    q, k, v = _parts(y, turns)
    return q, k, v, normed.x


def projected(
    kernels: Kernels, a: torch.Tensor, w: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, eps: float
) -> Normed:
    """x + a w^T with a [M, K] and w [d, K], and its norm."""
    if _wanted(a, w, x):
        return Normed(*_Projected.apply(kernels, a, w, x, gamma.detach(), eps))
    return Normed(*_project(kernels, a, w, x, gamma, eps))


def gated(
    kernels: Kernels,
    normed: Normed,
    gamma: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    next_gamma: torch.Tensor | None,
    next_eps: float,
) -> Normed | torch.Tensor:
    """x + SwiGLU(RMSNorm(x)) with w_gate_up [2F, d] and w_down [d, F]; with the norm behind it, where there is one."""
    if _wanted(normed.x, gamma, w_gate_up, w_down):
        behind = next_gamma if next_gamma is None else next_gamma.detach()
        found = _Gated.apply(kernels, *normed, gamma, w_gate_up, w_down, behind, next_eps)
    else:
        o: Any = kernels.gate(normed.g, w_gate_up, normed.rstd)
        found = _down(kernels, o, w_down, normed.x, next_gamma, next_eps)
    return Normed(*found) if next_gamma is not None else found


def _parts(y: torch.Tensor, turns: Turns) -> list[torch.Tensor]:
    sizes = [turns.heads, turns.kv_heads, turns.kv_heads]
    return list(y.unflatten(-1, (-1, turns.head.shape[1])).split(sizes, 1))


def _project(
    kernels: Kernels, a: torch.Tensor, w: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    h, g, sumsq = kernels.project(a, w, x, gamma)
    return h, g, torch.rsqrt(sumsq / h.shape[-1] + eps)


def _down(
    kernels: Kernels, o: torch.Tensor, w: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor | None, eps: float
) -> Any:
    if gamma is None:
        return kernels.add(o, w, x, 1.0, 1.0)
    return _project(kernels, o, w, x, gamma, eps)


class _Rotated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, x, g, rstd, gamma, w, table, head, heads, kv_heads):  # type: ignore[override]
        y: Any = kernels.rotate(g, w, rstd, table)
        ctx.kernels, ctx.widths = kernels, tuple(n * head.shape[1] for n in (heads, kv_heads, kv_heads))
        ctx.save_for_backward(x, rstd, gamma, w, head, y)
        ctx.set_materialize_grads(False)
        q, k, v = _parts(y, Turns(table, head, heads, kv_heads))
        return q, k, v, x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dq, dk, dv, dx):  # type: ignore[override]
        x, rstd, gamma, w, head, y = ctx.saved_tensors
        parts = [
            y.new_zeros(len(y), n) if d is None else d.reshape(len(y), n).contiguous()
            for d, n in zip((dq, dk, dv), ctx.widths, strict=True)
        ]
        dz, total = rows.qkv_unrotate(*parts, y, head)
        grad_x, c, grad_gamma = _through_norm(ctx.kernels, dz, w, x, gamma, rstd, total, _given(dx, x))
        grad_w = dz.t() @ c if ctx.needs_input_grad[5] else None
        return None, grad_x, None, None, grad_gamma, grad_w, None, None, None, None


class _Projected(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, a, w, x, gamma, eps: float):  # type: ignore[override]
        h, g, rstd = _project(kernels, a, w, x, gamma, eps)
        ctx.save_for_backward(a, w)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(g, rstd)
        return h, g, rstd

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh, *_):  # type: ignore[override]
        a, w = ctx.saved_tensors
        if dh is None:
            return None, None, None, None, None, None
        _, want_a, want_w, want_x, *_ = ctx.needs_input_grad
        return None, dh @ w if want_a else None, dh.t() @ a if want_w else None, dh if want_x else None, None, None


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, kernels: Kernels, x, g, rstd, gamma, w_gate_up, w_down, next_gamma, next_eps: float
    ):
        z, o = kernels.gate_kept(g, w_gate_up, rstd)
        ctx.kernels = kernels
        ctx.save_for_backward(x, rstd, gamma, w_gate_up, w_down, z)
        ctx.set_materialize_grads(False)
        found = _down(kernels, o, w_down, x, next_gamma, next_eps)
        if next_gamma is not None:
            ctx.mark_non_differentiable(found[1], found[2])
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh, *_):  # type: ignore[override]
        x, rstd, gamma, w_gate_up, w_down, z = ctx.saved_tensors
        dh = _given(dh, x)
        dz, o, total = ctx.kernels.gate_backward(dh, w_down, z)
        grad_down = dh.t() @ o if ctx.needs_input_grad[6] else None
        grad_x, c, grad_gamma = _through_norm(ctx.kernels, dz, _alternating(w_gate_up), x, gamma, rstd, total, dh)
        grad_gate_up = _halves(dz.t() @ c) if ctx.needs_input_grad[5] else None
        return None, grad_x, None, None, grad_gamma, grad_gate_up, grad_down, None, None


def _through_norm(kernels: Kernels, dz, w, x, gamma, rstd, total, dx):
    """The gradients of x and gamma through RMSNorm and the product with w, dx added; and what dz^T multiplies."""
    grad_x, c, grad_gamma = kernels.norm_backward(dz, w, x, gamma, rstd, total / x.shape[-1], dx)
    return grad_x, c, grad_gamma.to(gamma.dtype)


def _given(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if gradient is None else gradient.contiguous()


def _alternating(w: torch.Tensor) -> torch.Tensor:
    """[gate; up] with its rows in turn, as the columns of dz are: a copy, small beside the activations."""
    return w.unflatten(0, (2, -1)).transpose(0, 1).reshape(w.shape)


def _halves(w: torch.Tensor) -> torch.Tensor:
    return w.unflatten(0, (-1, 2)).transpose(0, 1).reshape(w.shape)


def _wanted(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
