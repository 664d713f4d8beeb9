"""Operands in fp8 (e4m3): numbers as an ordinary task's, divided by scales that some of its inputs give back.

One scale a row of the operand, or one for the whole of it, whichever the input that takes it can hold: the largest
magnitude becomes 448, the largest number of e4m3.  An input that takes a scale is what it was drawn as (a norm's
statistic, say) times the scale, so that outputs stay as large as in 16 bits and biases beside them still matter.
To an oracle the operands are the numbers that they hold: quantisation is the user's loss and not the kernel's.

A reference multiplies tensors, and torch multiplies no fp8 ones outside `torch._scaled_mm`.  The unfused path's own
error, a kernel's budget, is that of the reference on the same numbers in bf16, which holds each of them: a float32
product of exact operands, rounded once, is what `torch._scaled_mm` aims at too, and lacks the loss of the tensor
core's narrow accumulator, which no kernel should be forgiven.  Its time is another matter, see `multiplied`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from .task import Task

FP8 = torch.float8_e4m3fn
_LARGEST = 448.0
_WHOLE = 2.0**-4
"""The scale of small whole numbers, which stay exact."""
_PRODUCTS = {torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__}


def quantised(task: Task, inputs: Mapping[str, Any], family: str) -> dict[str, Any]:
    """The inputs with float32 operands in fp8, and their scales multiplied into the inputs that take them."""
    made = dict(inputs)
    for name in (task.gemm.a, task.gemm.b):
        taker, values = task.fp8[name], inputs[name]
        by_row = task.tensors[taker].dimensions == task.tensors[name].dimensions[:1]
        largest = values.abs().amax(1) if by_row else values.abs().amax()
        scale = torch.where(largest > 0, largest / _LARGEST, 1.0)
        if family == "integers":
            scale = torch.full_like(scale, _WHOLE)
        made[name] = (values / (scale[:, None] if by_row else scale)).to(FP8)
        given = made[taker]
        made[taker] = given * scale if isinstance(given, torch.Tensor) else given * float(scale)
    return made


def widened(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with fp8 tensors in bf16, which holds the same numbers."""
    return {n: v.bfloat16() if isinstance(v, torch.Tensor) and v.dtype == FP8 else v for n, v in inputs.items()}


class _Scaled(TorchFunctionMode):
    """Within it, fp8 tensors multiply. A class of the module, so that torch.compile can trace it."""

    def __init__(self, one: torch.Tensor):
        super().__init__()
        self.one = one

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _PRODUCTS and args[0].dtype == FP8:
            return torch._scaled_mm(args[0], args[1], self.one, self.one, out_dtype=torch.bfloat16)
        return func(*args, **(kwargs or {}))


def multiplied(reference: Callable, one: torch.Tensor) -> Callable:
    """The reference with `torch._scaled_mm` for each product of fp8 tensors: what a user of plain torch would run.

    Scales of 1, for the reference multiplies its own; not with fast accumulation, which is torch's default and
    what our kernels do.  one: a float32 1 on the tensors' device.  torch.compile traces it as it is.
    """

    def run(**inputs: Any) -> Any:
        with _Scaled(one):
            return reference(**inputs)

    return run
