"""Test data: a task's inputs drawn for a workload, by family and seed.

Each tensor has a generator of its own on the device where it is drawn, so big ones are drawn fast and adding
a tensor to a task does not change the others.  A CPU and a GPU draw different numbers from the same seed.

| family | what it is for |
|---|---|
| normal | ordinary activations, at the declared scale |
| large | near the end of the storage range, still without overflow in products of three |
| tiny | near zero, where an absolute tolerance would accept anything |
| sparse | nine of ten values exactly zero |
| outliers | a few rows much larger than the rest |
| integers | small whole numbers, on which polynomial epilogues are exact |
| mixed | the others in blocks of rows of one tensor |

Tensors with `low` and `high` stay between the two in every family; in "integers" they become multiples of a
power of two.  Python floats do too, and else keep their declared magnitude.
"""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from .errors import TaskError
from .quantise import quantised
from .tensor import Tensor, beside, evaluate
from .workload import Family, Workload

if TYPE_CHECKING:
    from .task import Task

# float16 ends at 65504 and loses digits below 6e-5; a product of three values must stay inside.
_LARGE = {"bf16": 16.0, "fp16": 4.0}
_TINY = {"bf16": 2.0**-10, "fp16": 2.0**-4}
_OUTLIER = {"bf16": 64.0, "fp16": 16.0}
# Terms that are not zero in each dot product of "integers": sums of squares over a row stay exact in float32.
_INTEGER_TERMS = 32

Inputs = dict[str, torch.Tensor | float]


def draw(task: Task, workload: Workload, device: str | torch.device = "cpu") -> Inputs:
    """The task's inputs for one workload: tensors on the device in their own dtypes, scalars as Python floats."""
    device = torch.device(device)
    inputs = {name: _draw(task, name, tensor, workload, device) for name, tensor in task.tensors.items()}
    return quantised(task, inputs, workload.family) if workload.storage == "fp8" else inputs


def _draw(task: Task, name: str, tensor: Tensor, workload: Workload, device: torch.device) -> torch.Tensor | float:
    if not tensor.dimensions:
        return _scalar(tensor, workload, _generator(name, workload, torch.device("cpu")))
    generator = _generator(name, workload, device)
    size = tensor.size(workload.sizes)
    storage = beside(workload.storage)
    unquantised = task.dtype_of(name, workload.storage) == "fp8"
    dtype = torch.float32 if unquantised else tensor.torch_dtype(storage)
    if tensor.is_index:
        return _indices(name, tensor, workload, size, generator).to(dtype)
    if tensor.low is not None or tensor.high is not None:
        low, high = _bounds(name, tensor, workload)
        values = _uniform(size, low, high, workload.family == "integers", generator)
    else:
        scale = tensor.standard_deviation(workload.sizes)
        axis = tensor.dimensions.index(task.m) if name != task.gemm.b and task.m in tensor.dimensions else None
        keep = min(1.0, _INTEGER_TERMS / task.k.size(workload.sizes)) if name == task.gemm.b else 1.0
        values = _values(workload.family, size, scale, axis, keep, storage, generator)
    return values.to(dtype)


def _generator(name: str, workload: Workload, device: torch.device) -> torch.Generator:
    text = f"{workload.seed}/{workload.family}/{name}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
    return torch.Generator(device).manual_seed(seed)


def _bounds(name: str, tensor: Tensor, workload: Workload) -> tuple[float, float]:
    if tensor.low is None or tensor.high is None:
        raise TaskError(f"{name} declares only one of low and high; give both")
    low, high = float(tensor.low), evaluate(tensor.high, workload.sizes)
    if not low < high:
        raise TaskError(f"{name} has low={low:g} and high={high:g}; low must be less than high")
    return low, high


def _scalar(tensor: Tensor, workload: Workload, generator: torch.Generator) -> float:
    if tensor.low is not None or tensor.high is not None:
        low, high = _bounds("a scalar", tensor, workload)
        value = _uniform((1,), low, high, workload.family == "integers", generator)
    else:  # never near zero, so that it matters
        sign = 1 - 2 * torch.randint(0, 2, (1,), generator=generator)
        steps = torch.randint(2, 7, (1,), generator=generator) / 4
        free = 0.5 + torch.rand(1, generator=generator)
        value = sign * (steps if workload.family == "integers" else free * tensor.standard_deviation(workload.sizes))
    return float(value.to(torch.float32))


def _indices(name: str, tensor: Tensor, workload: Workload, size: tuple, generator: torch.Generator) -> torch.Tensor:
    low, high = _bounds(name, tensor, workload)
    values = torch.randint(int(low), int(high), size, generator=generator, device=generator.device)
    if values.numel() > 1:  # both ends of the range always occur
        values[0], values[-1] = int(high) - 1, int(low)
    return values


def _uniform(size: tuple, low: float, high: float, whole: bool, generator: torch.Generator) -> torch.Tensor:
    if not whole:
        return torch.rand(size, generator=generator, device=generator.device) * (high - low) + low
    step = min(1.0, 2.0 ** math.floor(math.log2((high - low) / 2)))
    first, last = math.ceil(low / step), math.floor(high / step)
    return torch.randint(first, last + 1, size, generator=generator, device=generator.device) * step


def _values(
    family: Family,
    size: tuple,
    scale: float,
    rows: int | None,
    keep: float,
    storage: str,
    generator: torch.Generator,
) -> torch.Tensor:
    """float32 values. rows: the dimension that runs along the product's rows, if one does; keep: the share of
    integers that are not zero."""
    device = generator.device
    if family == "mixed":
        return _mixed(size, scale, rows, storage, generator)
    if family == "integers":
        values = torch.randint(-3, 4, size, generator=generator, device=device).float()
        if keep < 1:
            values *= torch.rand(size, generator=generator, device=device) < keep
        values.view(-1)[0] = 2.0
        return values
    values = torch.randn(size, generator=generator, device=device) * scale
    if family == "large":
        values *= _LARGE[storage]
    elif family == "tiny":
        values *= _TINY[storage]
    elif family == "sparse":
        kept = torch.rand(size, generator=generator, device=device) < 0.1
        kept.view(-1)[0] = True  # a short vector is never all zero
        values *= kept
    elif family == "outliers" and rows is not None:
        count = size[rows]
        chosen = torch.randperm(count, generator=generator, device=device)[: max(count // 64, 1)]
        factors = torch.ones(count, device=device)
        factors[chosen] = _OUTLIER[storage]
        values *= factors.view(-1, *[1] * (len(size) - 1 - rows))
    return values


def _mixed(size: tuple, scale: float, rows: int | None, storage: str, generator: torch.Generator) -> torch.Tensor:
    """Blocks of rows, each of another family; a weight keeps to those that leave its scale alone."""
    families: tuple[Family, ...] = ("normal", "tiny", "sparse")
    if rows is not None:
        families = ("normal", "outliers", "integers", "tiny", "large", "sparse")
    dim = rows or 0
    blocks = [
        _values(family, (*size[:dim], count, *size[dim + 1 :]), scale, rows, 1.0, storage, generator)
        for family, count in zip(families, _split(size[dim], len(families)), strict=True)
        if count
    ]
    return torch.cat(blocks, dim)


def _split(total: int, parts: int) -> list[int]:
    """Nearly equal parts, of sizes that are no multiple of a tile."""
    edges = [total * i // parts for i in range(parts + 1)]
    return [b - a for a, b in pairwise(edges)]
