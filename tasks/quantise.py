"""Operands in fp8 (e4m3): numbers as an ordinary task's, divided by scales that some of its inputs give back.

One scale a row of the operand, or one for the whole of it, whichever the input that takes it can hold: the largest
magnitude becomes 448, the largest number of e4m3.  An input that takes a scale is what it was drawn as (a norm's
statistic, say) times the scale, so that outputs stay as large as in 16 bits and biases beside them still matter.
To an oracle the operands are the numbers that they hold: quantisation is the user's loss and not the kernel's.

A reference multiplies tensors, and torch multiplies no fp8 ones outside `torch._scaled_mm`, which is the unfused
path: without fast accumulation, so that the tensor core's sums, of 14 bits, are added in float32 after every 128 terms
as our kernels add theirs.  What is lost within 128 terms, no kernel on that tensor core gets back: beside large terms
that cancel, a small sum is off by what a sigmoid or a clamp then shows.  Without a GPU the same numbers are multiplied
in bf16, which holds each of them and loses less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import is_fake
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from .task import Task

FP8 = torch.float8_e4m3fn
_LARGEST = 448.0
_WHOLE = 2.0**-4
"""The scale of small whole numbers, which stay exact."""
_COLUMNS = 16
"""`torch._scaled_mm` takes multiples of so many, and rows that begin at such a multiple."""
_PRODUCTS = {
    torch.matmul: ("input", "other"),
    torch.mm: ("input", "mat2"),
    torch.Tensor.matmul: ("self", "other"),
    torch.Tensor.mm: ("self", "mat2"),
    torch.Tensor.__matmul__: ("self", "other"),
    F.linear: ("input", "weight", "bias"),
}
"""What their operands are called, and what else they take."""
_LIKE = {torch.Tensor.to, torch.Tensor.type_as}


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


def takes(operands: Sequence[torch.Tensor]) -> bool:
    """Whether `torch._scaled_mm` takes these as a product's operands: fp8, on a GPU that multiplies it, in whole rows
    of 16 bytes that lie one behind the other. Sizes unknown while tracing are not taken."""
    return all(
        is_fp8(v)
        and v.is_cuda
        and all(type(size) is int and size for size in v.shape)
        and v.shape[1] % _COLUMNS == v.storage_offset() % _COLUMNS == 0
        and v.stride() == (v.shape[1], 1)
        and (is_fake(v) or v.data_ptr() % _COLUMNS == 0)
        and _multiplies(v.device)
        for v in operands
    )


def _multiplies(device: torch.device) -> bool:
    """Whether a CUDA device multiplies fp8."""
    known = torch.version.cuda is not None and torch.cuda.is_available()
    return known and torch.cuda.get_device_capability(device) >= (8, 9)


def widened(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with fp8 tensors in bf16, which holds the same numbers."""
    return {n: v.bfloat16() if is_fp8(v) else v for n, v in inputs.items()}


class _Scaled(TorchFunctionMode):
    """Within it, fp8 tensors multiply. A class of the module, so that torch.compile can trace it."""

    def __init__(self, one: torch.Tensor):
        super().__init__()
        self.one = one

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _PRODUCTS:
            a, b, *more = _operands(func, args, kwargs)
            if is_fp8(a) and not more:
                return self._product(a, b.t() if func is F.linear else b)
        if func is torch.Tensor.unflatten:  # whose own text torch.compile cannot trace under a mode
            return torch.unflatten(*args, **kwargs)
        if func is not torch.Tensor.view and not (args and is_fp8(args[0])):
            # fp8 holds no results: a cast to x.dtype is one to what holds them (a view of bytes is none)
            args = tuple(self.one.bfloat16() if func in _LIKE and is_fp8(a) else _wide(a) for a in args)
            kwargs = {name: _wide(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)

    def _product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        columns = b.shape[1]
        product = torch._scaled_mm(a, _even(b), self.one, self.one, out_dtype=torch.bfloat16)
        return product if columns == product.shape[1] else product[:, :columns].contiguous()


def _operands(func: Callable, args: tuple, kwargs: Mapping[str, Any]) -> list[Any]:
    """What a product is given: both operands, None in the place of one that is missing, and then anything more."""
    names = _PRODUCTS[func]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    more = [value for name, value in given.items() if name not in names[:2] and value is not None]
    return [given.get(names[0]), given.get(names[1]), *more]


def is_fp8(value: Any) -> bool:
    """Whether an input or a result is a tensor of e4m3 numbers."""
    return isinstance(value, torch.Tensor) and value.dtype == FP8


def _wide(argument: Any) -> Any:
    return torch.bfloat16 if argument is FP8 else argument


def _even(b: torch.Tensor) -> torch.Tensor:
    """With columns of zeros behind it, such that `torch._scaled_mm` takes as many."""
    behind = -b.shape[1] % _COLUMNS
    return F.pad(b.t().view(torch.uint8), (0, 0, 0, behind)).view(FP8).t() if behind else b


@cache
def one(device: torch.device) -> torch.Tensor:
    """A float32 1 that stays: a CUDA graph that has recorded it reads it whenever it runs."""
    return fresh_one(device)


def fresh_one(device: torch.device) -> torch.Tensor:
    """A float32 1, whatever the default dtype is."""
    return torch.ones((), dtype=torch.float32, device=device)


def by_scaled_mm(reference: Callable, inputs: Mapping[str, Any]) -> Callable:
    """The reference as `multiplied` makes it for these inputs; itself without fp8 among them."""
    small = next((v for v in inputs.values() if is_fp8(v)), None)
    return reference if small is None else multiplied(reference, one(small.device))


def as_unfused(reference: Callable, inputs: Mapping[str, Any]) -> tuple[Callable, dict[str, Any]]:
    """What to call for the unfused path, and with what; the reference and the inputs themselves without fp8."""
    if any(is_fp8(v) and v.is_cuda for v in inputs.values()):
        return by_scaled_mm(reference, inputs), dict(inputs)
    return reference, widened(inputs)


def multiplied(reference: Callable, one: torch.Tensor) -> Callable:
    """The reference with `torch._scaled_mm` for each product of fp8 tensors: what a user of plain torch would run.

    Scales of 1, for the reference multiplies its own; without fast accumulation, which is torch's default and
    what our kernels do.  A result that the reference casts to an operand's dtype is in bf16, which holds results.
    one: a float32 1 on the tensors' device.  torch.compile traces it as it is.
    """

    def run(**inputs: Any) -> Any:
        with _Scaled(one):
            return reference(**inputs)

    return run
