"""Launches many kernels one after another on small ragged inputs; runs under compute-sanitizer, and judges nothing.

    python -m codasmith.gate.sanitized JOB.json

A line before and after each kernel says whose lines the tool's are.  Every tensor is an allocation of its own
(PYTORCH_NO_CUDA_MEMORY_CACHING=1 in the environment), so that a byte beyond it is seen.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from ..templates.launch import TORCH_DTYPES, Kernel, product_shape
from ..templates.signature import Signature
from . import contain

BEGIN, END, FAILED = "@@ begin ", "@@ end ", "@@ failed "


def inputs(signature: Signature, sizes: dict[str, int], device: str = "cuda") -> dict[str, Any]:
    """Values of an ordinary size for every input; indices within the product's columns."""
    made = torch.Generator(device).manual_seed(7)
    indices = {a.name for a in signature.arguments if a.role == "index"}
    found: dict[str, Any] = {}
    for name in signature.inputs:
        spec = signature.tensors[name]
        if spec.dtype == "float":
            found[name] = 0.75
        elif name not in indices and not spec.dtype.startswith("i"):
            values = torch.randn(spec.size(sizes), device=device, generator=made)
            found[name] = (0.5 * values).to(TORCH_DTYPES[spec.dtype])
    for name in signature.inputs:
        if name not in found:
            spec = signature.tensors[name]
            columns = product_shape(signature, found)[1]
            drawn = torch.randint(0, columns, spec.size(sizes), device=device, generator=made)
            found[name] = drawn.to(TORCH_DTYPES[spec.dtype])
    return {name: found[name] for name in signature.inputs}


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    torch.zeros(1, device="cuda")
    if job["folder"]:
        contain.hold_files(Path(job["folder"]))
    for item in job["items"]:
        name, signature = item["name"], Signature.model_validate(item["signature"])
        print(f"{BEGIN}{name}", flush=True)
        try:
            kernel = Kernel(Path(item["path"]), signature)
            for sizes in item["sizes"]:
                given = inputs(signature, sizes)
                kernel(given, kernel.outputs_like(given))
                torch.cuda.synchronize()
        except Exception as error:
            print(f"{FAILED}{name} {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            raise SystemExit(3) from None  # the context is broken; the rest goes into another process
        print(f"{END}{name}", flush=True)


if __name__ == "__main__":
    main()
