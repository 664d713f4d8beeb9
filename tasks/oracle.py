"""Answers from the one reference: the float64 oracle, and the unfused path in the storage dtype.

The oracle's error is nothing beside a kernel's; the unfused path's own error against it is the budget that
a kernel has.  A reference may be written as for training, with `.float()` and dtypes where they help: inside
the oracle, every cast to a floating-point dtype yields float64.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch.overrides import TorchFunctionMode

from .errors import TaskError
from .inputs import Inputs
from .quantise import as_unfused, by_scaled_mm, is_fp8

if TYPE_CHECKING:
    from .task import Task

_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}
_FP8_REMEDY = (
    "torch multiplies fp8 tensors only in {product}, torch.matmul, torch.mm and F.linear without a bias; "
    "write the product so, and scale its result"
)


def cast(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """The same inputs with every floating-point tensor in another dtype; indices and Python floats stay."""
    return {k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in inputs.items()}


def oracle(task: Task, inputs: Inputs) -> dict[str, torch.Tensor]:
    """The outputs in float64, computed from the inputs as rounded to their own dtypes.

    Raises TaskError, in one sentence, if the reference fails or answers with other names, shapes or dtypes
    than the task declares; torch.OutOfMemoryError where the GPU has too little memory.
    Everything is held at once; `pieces` gives the same in blocks of rows.
    """
    with torch.no_grad(), _Wide():
        answer = _answer(task, cast(inputs, torch.float64))
    for name, value in answer.items():
        if value.dtype != torch.float64:
            raise _wrong(
                task, f"returns {name} as {value.dtype} from float64 inputs", "compute it from the inputs' dtype"
            )
    return answer


def unfused(task: Task, inputs: Inputs) -> dict[str, torch.Tensor]:
    """The outputs as the reference computes them in the inputs' own dtypes, rounded to the declared dtypes.

    Operands in fp8 are multiplied by `torch._scaled_mm` on a GPU, in bf16 elsewhere; see `quantise`.
    Raises TaskError as `oracle` does.
    """
    storage = "fp16" if torch.as_tensor(inputs[task.leading]).dtype == torch.float16 else "bf16"
    reference, given = as_unfused(task.reference, inputs)
    with torch.no_grad():
        answer = _answer(task, given, reference)
    return {name: value.to(task.outputs[name].torch_dtype(storage)) for name, value in answer.items()}


def check_fp8(task: Task, inputs: Inputs) -> None:
    """Run the reference on fp8 operands on any device as a GPU does. Raises TaskError, as `oracle` does."""
    with torch.no_grad():
        _answer(task, inputs, by_scaled_mm(task.reference, inputs))


class _Wide(TorchFunctionMode):
    """Within it, a cast to float32 or narrower is a cast to float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _CASTS:
            return args[0].double()
        kwargs = {k: _widen(v) for k, v in (kwargs or {}).items()}
        return func(*[_widen(a) for a in args], **kwargs)


def _widen(argument):
    narrow = isinstance(argument, torch.dtype) and argument.is_floating_point
    return torch.float64 if narrow else argument


def _answer(task: Task, inputs: Inputs, reference: Callable | None = None) -> dict[str, torch.Tensor]:
    small = any(map(is_fp8, inputs.values()))
    remedy = _FP8_REMEDY.format(product=task.gemm) if small else "correct it"
    given = {k: v.clone() if k in task.accumulates and isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    try:
        answer = (reference or task.reference)(**given)
    except torch.OutOfMemoryError:
        raise  # the machine's fault, not the reference's
    except Exception as error:
        raise _wrong(
            task,
            f"raises {type(error).__name__}{_where(task, error)}{' on fp8 operands' * small}: {_first_line(error)}",
            remedy,
        ) from error
    names, sizes = ", ".join(task.outputs), sizes_of(task, inputs)
    if not isinstance(answer, dict):
        raise _wrong(task, f"returns a {type(answer).__name__}", f"return a dict with the outputs {names}")
    if set(answer) != set(task.outputs):
        raise _wrong(
            task, f"returns {', '.join(map(str, answer)) or 'nothing'}", f"return the declared outputs {names}"
        )
    for name, value in answer.items():
        if not isinstance(value, torch.Tensor):
            raise _wrong(task, f"returns {name} as a {type(value).__name__}", "return a tensor")
        if not value.is_floating_point():
            raise _wrong(task, f"returns {name} as {value.dtype}", "return floating-point numbers")
        if is_fp8(value):
            raise _wrong(task, f"returns {name} as {value.dtype}", remedy)
        expected = task.outputs[name].size(sizes)
        if tuple(value.shape) != expected:
            declared = " ".join(map(str, task.outputs[name].dimensions))
            raise _wrong(
                task,
                f"returns {name} of shape {list(value.shape)} where [{declared}] is {list(expected)}",
                "make the reference and the declaration agree",
            )
    return {name: answer[name] for name in task.outputs}


def sizes_of(task: Task, inputs: Inputs) -> dict[str, int]:
    """The symbols' sizes, as the inputs' shapes have them."""
    sizes: dict[str, int] = {}
    for key, tensor in task.tensors.items():
        value = inputs[key]
        if isinstance(value, torch.Tensor):
            for dimension, extent in zip(tensor.dimensions, value.shape, strict=True):
                if dimension.symbol:
                    sizes[dimension.symbol] = extent // dimension.coefficient
    return sizes


def _wrong(task: Task, found: str, remedy: str) -> TaskError:
    return TaskError(f"task {task.name!r}: the reference {found}; {remedy}")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")


def _where(task: Task, error: BaseException) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(task.path)]
    return f" in line {lines[-1]}" if lines else ""
