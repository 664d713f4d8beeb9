"""The task's reference as an operator runs it: in the inputs' own dtypes, results in the declared ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..tasks import Task
from ..tasks.quantise import FP8, fresh_one, is_fp8, multiplied, takes, widened
from ..tasks.tensor import DTYPES
from .errors import InputError
from .sizes import Value, folded, sizes_of


def output_dtype(task: Task, name: str, values: Sequence[Value]) -> torch.dtype:
    """The declared dtype, or that of the product's first operand where the task leaves it to the storage dtype.

    bfloat16 where the operands are fp8, which hold no results."""
    declared = task.outputs[name].dtype
    leading = values[list(task.tensors).index(task.leading)].dtype
    return DTYPES[declared] if declared else torch.bfloat16 if leading == FP8 else leading


def compute(task: Task, values: Sequence[Value]) -> dict[str, torch.Tensor]:
    """All outputs by the plain-PyTorch reference, differentiable; they may share memory with inputs.

    Operands in fp8 are multiplied by `torch._scaled_mm` where it takes them; otherwise, without a GPU and for gradients
    of their own too, as the same numbers in bfloat16.
    """
    inputs = dict(zip(task.tensors, values, strict=True))
    operands = [v for v in values if is_fp8(v)]
    differentiated = torch.is_grad_enabled() and any(v.requires_grad for v in operands)
    if len(operands) == 2 and takes(operands) and not differentiated:
        # A 1 of its own: one that is kept would be a tracer's, or a graph's, where the first call is its.
        results = multiplied(task.reference, fresh_one(operands[0].device))(**inputs)
    else:
        results = task.reference(*widened(inputs).values())
    return {name: results[name].to(output_dtype(task, name, values)) for name in task.outputs}


def run(task: Task, values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
    """The new outputs in order, fresh and contiguous; accumulated ones are written in place.

    Raises InputError where tensors of the storage dtype have different ones, an index is outside, or a dimension is 0,
    and the reference has no answer to that, such as the largest of no rows.
    """
    for name in task.accumulates:
        tensor = values[list(task.tensors).index(name)]
        if folded(tensor):
            raise InputError(
                f"{task.name}: {name} is written in place, and elements of it share memory (strides "
                f"{list(tensor.stride())}); pass {name}.contiguous()"
            )
    try:
        results = compute(task, values)
    except (IndexError, RuntimeError) as error:
        why = _mistake(task, values)
        if not why:
            raise
        raise InputError(f"{task.name} has no answer where {why} ({str(error).splitlines()[0].rstrip('.')})") from None
    taken = {v.untyped_storage()._cdata for v in values if isinstance(v, torch.Tensor)}
    fresh = []
    for name, result in results.items():
        if name in task.accumulates:
            continue
        memory = result.untyped_storage()._cdata
        result = result.clone(memory_format=torch.contiguous_format) if memory in taken else result.contiguous()
        taken.add(result.untyped_storage()._cdata)
        fresh.append(result)
    names = list(task.tensors)
    for name in task.accumulates:
        values[names.index(name)].copy_(results[name])
    return tuple(fresh)


def _mistake(task: Task, values: Sequence[Value]) -> str:
    """What of these inputs a reference may stumble over, with the remedy; "" if nothing."""
    dtypes = {
        n: v.dtype for (n, t), v in zip(task.tensors.items(), values, strict=True) if t.dimensions and not t.dtype
    }
    if len(set(dtypes.values())) > 1:
        return f"{', '.join(f'{n} is {d}' for n, d in dtypes.items())}; convert them to one dtype"
    for (name, tensor), value in zip(task.tensors.items(), values, strict=True):
        if tensor.is_index and value.dtype != DTYPES[tensor.dtype or ""]:
            return f"{name} is {value.dtype}; convert it to {DTYPES[tensor.dtype or '']}"
    empty = next((symbol for symbol, size in sizes_of(task, values).items() if size == 0), None)
    return f"{empty} is 0; give it 1 or more" if empty else _outside(task, values)


def _outside(task: Task, values: Sequence[Value]) -> str:
    """Which index is outside its range. On a CPU: a GPU has stopped at it, and there is nothing to be read any more."""
    sizes = sizes_of(task, values)
    for (name, tensor), value in zip(task.tensors.items(), values, strict=True):
        if tensor.is_index and tensor.high in sizes and value.device.type == "cpu":
            end, count = tensor.high, sizes[tensor.high]
            for index in value.aminmax():
                if not 0 <= index < count:
                    return f"{name} holds {index}, and {end} is {count}; give it 0 to {end} - 1"
    return ""
