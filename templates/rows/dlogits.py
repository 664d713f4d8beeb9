"""The gradient of cross-entropy with respect to stored logits: softmax minus one-hot, times the loss's own gradient.

dlogits_mn = (exp(logit_mn - lse_m) - [n = target_m]) dloss_m.  A probability above 1, which logits rounded after the
log-sum-exp was taken could give, is cut to 1.  Where dloss is 0, as for rows to be ignored, the row is 0.
logits [M, N], lse and dloss [M] in float32, target [M] of columns give dlogits [M, N].
Cost: one element read and one written each.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ._rows import on, wide

BLOCK = 4096  # columns a program


def meaning(logits: torch.Tensor, lse: torch.Tensor, target: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
    """dlogits in the dtype of the logits."""
    probability = torch.exp((wide(logits) - lse[:, None]).clamp(max=0))
    columns = torch.arange(logits.shape[1], device=logits.device)
    return ((probability - (columns == target[:, None]).to(probability)) * dloss[:, None]).to(logits.dtype)


def launch(logits, lse, target, dloss, dlogits) -> None:
    """One program a row and 4096 columns."""
    rows, columns = logits.shape
    with on("dlogits", logits, lse, target, dloss, dlogits):
        _kernel[(rows, triton.cdiv(columns, BLOCK))](logits, lse, target, dloss, dlogits, columns, BLOCK)


@triton.jit
def _kernel(logits_at, lse_at, target_at, dloss_at, dlogits_at, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    place = row * columns + column
    lse, target, dloss = tl.load(lse_at + row), tl.load(target_at + row), tl.load(dloss_at + row)
    logit = tl.load(logits_at + place, mask=inside, other=0.0).to(tl.float32)
    shifted = logit - lse
    probability = tl.exp(tl.where(shifted > 0.0, 0.0, shifted))  # a comparison, so that NaN stays
    dlogits = tl.where(column == target, probability - 1.0, probability) * dloss
    tl.store(dlogits_at + place, dlogits.to(dlogits_at.dtype.element_ty), mask=inside)
