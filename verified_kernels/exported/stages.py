"""A program's stages as one launch: products, formulas on vectors and row kernels, in order, read from spec.json."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from .launch import TORCH_DTYPES, bind

FINISH: dict[str, Callable[..., torch.Tensor]] = {
    "rsqrt_mean": lambda total, eps, *, d: torch.rsqrt(total / d + eps),
    "mean": lambda total, *, d: total / d,
    "lse_minus": lambda lse, picked: lse - picked,
}

Launch = Callable[[tuple[Any, ...]], tuple[torch.Tensor, ...]]


def assembled(spec: dict[str, Any], signature: Any, kernels: dict[str, Any], inputs: dict[str, Any]) -> Launch:
    """A launch on the current stream for all inputs of these shapes, dtypes and device.

    signature: of the whole program. kernels: a loaded one for each product, by stage.
    """
    sizes, device = bind(signature, inputs), inputs[spec["a"]].device
    # What later stages read is not there yet: one element stands for it, in the shape that it will have.
    known = dict(inputs)
    for name in signature.outputs:
        tensor = signature.tensors[name]
        known[name] = torch.empty(1, dtype=TORCH_DTYPES[tensor.dtype], device=device).expand(tensor.size(sizes))
    last = {name: i for i, stage in enumerate(spec["stages"]) for name in (*stage["reads"], *stage["writes"])}
    steps = []
    for i, stage in enumerate(spec["stages"]):
        reads, writes, run = _step(stage, kernels, known, sizes)
        done = [name for name in dict.fromkeys((*reads, *writes)) if last[name] == i and name not in spec["outputs"]]
        steps.append((reads, writes, run, done))
    names, outputs = tuple(inputs), tuple(spec["outputs"])

    def launch(values: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        held: dict[str, Any] = dict(zip(names, values, strict=True))
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            for reads, writes, run, done in steps:
                held.update(zip(writes, run(tuple(held[name] for name in reads)), strict=True))
                for name in done:
                    del held[name]
        return tuple(held[name] for name in outputs)

    return launch


def _step(
    stage: dict[str, Any], kernels: dict[str, Any], known: dict[str, Any], sizes: dict[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...], Launch]:
    """What a stage reads and writes, in order, and what runs it."""
    if stage["kind"] == "gemm":
        kernel = kernels[stage["name"]]
        reads = tuple(kernel.signature.inputs)
        return reads, tuple(kernel.signature.outputs), kernel.bound({name: known[name] for name in reads})
    reads, writes = tuple(stage["reads"]), tuple(stage["writes"])
    constants = {k: sizes[v] if isinstance(v, str) else v for k, v in stage["constants"].items()}
    if stage["kind"] == "finish":
        formula = FINISH[stage["formula"]]
        return reads, writes, lambda values: (formula(*values, **constants),)
    from .rows import row_kernel

    rows = row_kernel(stage["formula"]).launch
    made = [(known[name].shape, known[name].dtype, known[name].device) for name in writes]

    def run(values: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        fresh = tuple(torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in made)
        rows(*values, *fresh, **constants)
        return fresh

    return reads, writes, run
