"""The one numerics rule: how far a kernel's output may lie from the float64 oracle.

A kernel may lose twice what the unfused path in the storage dtype loses itself, plus what rounding costs.
Both in the largest error and in the root mean square, for every output:

    bound = min(2 * unfused error, scale / 8) + max(eps, 1e-5) * scale + half the smallest subnormal

scale is the oracle's largest magnitude for the largest error and its root mean square for the other; eps is
torch.finfo(dtype).eps, so eps * scale is at least the distance of two neighbours at the scale.  Float32 outputs
get 1e-5 instead: an exponential by the GPU's own unit errs by up to 2^-24 times its argument (5e-6 at 88, where
float32 ends), and on whole numbers the unfused path can be right by luck to the last bit.  Any computation in 16
bits errs at least 25 times more.

Correct rounding always passes: it errs by at most eps/2 |x| or half the smallest subnormal at each element.
Zeros never pass where the oracle is not zero: their error is the scale itself, and the bound stays below it
however bad the unfused path is (except for outputs that lie below 0.6 of the smallest subnormal).
Of outputs of fewer than 64 elements 8 times as much is allowed, and half the scale in place of an eighth.
NaN and infinities must stand exactly where the oracle, rounded to the dtype, has them; the norms leave them out.

On whole numbers, where float32 arithmetic is proven exact (`exact.py`), an output must equal the rounded oracle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import torch

from ..tasks import Task, unfused
from ..tasks.blocks import MOST, pieces
from ..tasks.inputs import Inputs
from .exact import exact_outputs, is_polynomial

__all__ = ["Errors", "exact_outputs", "is_polynomial", "judge", "judge_runs"]

_UNFUSED = 2.0
"""How many times the unfused path's own error is allowed."""
_CAP = 1 / 8
"""The most of the scale that an unfused path may forgive."""
_FINEST = 1e-5
"""The least relative error, of the scale, that an output may have."""
_FEW = 64
"""Elements. Of fewer, how far the unfused path is off is luck, and all may lie where float32 leaves little."""
_FEW_CAP = 1 / 2
_FEW_ALLOWED = 8
"""Times what is allowed of the scale otherwise, and of float32 at least 2^-13: other workloads hold the same object to
the rule on many elements."""
_CHUNK = 2**23
"""Elements compared at a time: about half a gigabyte of temporaries."""


@dataclass(frozen=True)
class Errors:
    """One output of one run against the oracle, in its own units."""

    kernel_max: float
    kernel_rms: float
    unfused_max: float
    unfused_rms: float
    bound_max: float
    bound_rms: float
    scale_max: float
    """The oracle's largest finite magnitude."""
    scale_rms: float
    misplaced: int
    """Elements that are NaN or infinite where the rounded oracle is not, or the other way round."""
    unequal: int | None
    """Elements that differ from the rounded oracle, where equality is asked; else None."""

    @property
    def ok(self) -> bool:
        within = self.kernel_max <= self.bound_max and self.kernel_rms <= self.bound_rms
        return within and not self.misplaced and not self.unequal

    @property
    def ratio(self) -> float:
        """The error as a share of its bound, the worse of the two; at most 1 is within."""
        return max(self.kernel_max / self.bound_max, self.kernel_rms / self.bound_rms)

    def __str__(self) -> str:
        """What is wrong, or how close it was, in one phrase."""
        if self.misplaced:
            return f"{self.misplaced} elements are NaN or infinite where the oracle is not, or the other way round"
        if self.kernel_max > self.bound_max:
            return f"the largest error is {self.kernel_max:.3g}, {self.kernel_max / self.bound_max:.3g} times its bound"
        if self.kernel_rms > self.bound_rms:
            return f"the RMS error is {self.kernel_rms:.3g}, {self.kernel_rms / self.bound_rms:.3g} times its bound"
        if self.unequal:
            return f"{self.unequal} elements differ on whole numbers, for which float32 arithmetic is exact"
        return f"the error is {self.ratio:.2g} of its bound"


def judge(
    actual: torch.Tensor, oracle: torch.Tensor, unfused: torch.Tensor, dtype: torch.dtype, *, exact: bool = False
) -> Errors:
    """Compare a kernel's output with the oracle; all three tensors of one shape, on one device.

    actual: in the output's dtype. oracle: float64. unfused: the unfused path's answer, in the output's dtype.
    exact: whether equality with the rounded oracle is asked (see `exact_outputs`).
    Raises ValueError for a wrong shape or dtype, which is the caller's mistake.
    """
    comparison = _Comparison(dtype, exact)
    comparison.add(actual, oracle, unfused)
    return comparison.errors()


def judge_runs(
    task: Task,
    inputs: Inputs,
    runs: Mapping[str, Mapping[str, torch.Tensor]],
    *,
    exact: Collection[str] = (),
    most: int = MOST,
) -> dict[str, dict[str, Errors]]:
    """Compare several kernels' outputs on the same inputs with the oracle, by kernel and output.

    exact: the outputs of which equality with the rounded oracle is asked.
    The oracle is computed piece by piece, `most` elements at a time, and never held whole where the task can be cut.
    The unfused path is computed whole: it is the budget, and sums of parts would round otherwise.
    """
    plain = unfused(task, inputs)
    compared = {k: {n: _Comparison(plain[n].dtype, n in exact) for n in outputs} for k, outputs in runs.items()}
    for name, where, truth in pieces(task, inputs, most):
        for key, outputs in runs.items():
            if name in outputs:
                compared[key][name].add(outputs[name][where], truth, plain[name][where])
    return {key: {name: one.errors() for name, one in found.items()} for key, found in compared.items()}


class _Comparison:
    """One output of one run, compared as its parts come."""

    def __init__(self, dtype: torch.dtype, exact: bool):
        self._dtype, self._exact = dtype, exact
        self._scale, self._kernel, self._budget = _Norm(), _Norm(), _Norm()
        self._misplaced: list[torch.Tensor] = []
        self._unequal: list[torch.Tensor] = []

    def add(self, actual: torch.Tensor, oracle: torch.Tensor, unfused: torch.Tensor) -> None:
        dtype = self._dtype
        if actual.dtype != dtype or oracle.dtype != torch.float64:
            raise ValueError(f"actual is {actual.dtype} and oracle {oracle.dtype}; pass {dtype} and torch.float64")
        if not actual.shape == oracle.shape == unfused.shape:
            raise ValueError(f"the shapes {[list(t.shape) for t in (actual, oracle, unfused)]} are not the same")
        for a, o, u in _chunks(actual, oracle, unfused):
            rounded = o.to(dtype)
            finite = torch.isfinite(rounded)
            wild = ~torch.isfinite(a) | ~finite
            self._misplaced.append((wild & (a != rounded) & ~(a.isnan() & rounded.isnan())).sum())
            if self._exact:
                self._unequal.append((~wild & (a != rounded)).sum())
            self._scale.add(o, finite)
            self._kernel.add(a.double() - o, finite & torch.isfinite(a))
            self._budget.add(u.double() - o, finite & torch.isfinite(u))

    def errors(self) -> Errors:
        scale, kernel, budget = self._scale, self._kernel, self._budget
        info = torch.finfo(self._dtype)
        floor = info.smallest_normal * info.eps / 2
        allowed, cap = max(info.eps, _FINEST), _CAP
        if scale.count < _FEW:
            allowed, cap = _FEW_ALLOWED * max(info.eps, 2.0**-13), _FEW_CAP
        return Errors(
            kernel_max=kernel.max,
            kernel_rms=kernel.rms,
            unfused_max=budget.max,
            unfused_rms=budget.rms,
            bound_max=min(_UNFUSED * budget.max, cap * scale.max) + allowed * scale.max + floor,
            bound_rms=min(_UNFUSED * budget.rms, cap * scale.rms) + allowed * scale.rms + floor,
            scale_max=scale.max,
            scale_rms=scale.rms,
            misplaced=_total(self._misplaced),
            unequal=_total(self._unequal) if self._exact else None,
        )


def _total(counts: list[torch.Tensor]) -> int:
    return int(torch.stack(counts).sum()) if counts else 0


class _Norm:
    """Largest magnitude and root mean square of what has been added, kept on the device until asked for."""

    def __init__(self) -> None:
        self._max: list[torch.Tensor] = []
        self._sum: list[torch.Tensor] = []
        self._count: list[torch.Tensor] = []

    def add(self, values: torch.Tensor, where: torch.Tensor) -> None:
        magnitude = torch.where(where, values, 0.0).abs_()
        self._max.append(magnitude.amax())
        self._sum.append((magnitude * magnitude).sum())
        self._count.append(where.sum())

    @property
    def max(self) -> float:
        return float(torch.stack(self._max).amax()) if self._max else 0.0

    @property
    def count(self) -> int:
        return _total(self._count)

    @property
    def rms(self) -> float:
        count = self.count
        return sqrt(float(torch.stack(self._sum).sum()) / count) if count else 0.0


def _chunks(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The tensors in blocks of rows; a vector is one row of elements, cut likewise."""
    if not tensors[0].numel():
        return
    rows = tensors[0].shape[0]
    step = max(_CHUNK * rows // tensors[0].numel(), 1)
    for start in range(0, rows, step):
        yield tuple(t[start : start + step] for t in tensors)
