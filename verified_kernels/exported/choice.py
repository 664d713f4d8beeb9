"""Which compiled objects take given inputs: those first that won on the nearest tuned shape.

Each is checked by its digest. One object makes a kernel of one product; a program takes one for each of its products.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import torch

from .launch import TORCH_DTYPES, Kernel, refuse
from .signature import Signature
from .stages import assembled

REMEMBERED = 1024


def hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) == (9, 0)


class Kernels:
    """The objects of one task. spec: as exported; folder: of the package, with objects/."""

    def __init__(self, folder: Path, spec: dict[str, Any]):
        self.folder, self.spec, self.inputs = folder, spec, tuple(spec["inputs"])
        self._signatures: list[Any] = [Signature.read(o["signature"]) for o in spec["objects"]]
        self._whole: dict[str, Any] = {s: Signature.read(data) for s, data in spec["whole"].items()}
        self._plans: dict[tuple, Any] = {}
        self._kernels: dict[tuple[int, int | None], Any] = {}

    def plan(self, values: tuple) -> Any:
        """A launch for inputs of this kind, or why there is none, in one sentence."""
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        key = tuple((v.shape, v.stride(), v.dtype, v.device, v.data_ptr() % 64) for v in tensors)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= REMEMBERED:
                self._plans.clear()
            plan = self._plans[key] = self._decided(values)
        return plan

    def library(self, place: int) -> Path:
        """The object's file. Raises OSError where it is not the one that was exported."""
        entry = self.spec["objects"][place]
        path = self.folder / "objects" / entry["file"]
        if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
            raise OSError(f"{path} was changed after it was exported; export it again")
        return path

    def _decided(self, values: tuple) -> Any:
        device = values[self.inputs.index(self.spec["a"])].device
        if not hopper(device):
            return f"the tensors are on {device}, and the kernel runs on a Hopper GPU (H100, H200)"
        named = dict(zip(self.inputs, values, strict=True))
        reason = "there is no compiled object"
        for places in self._candidates(named):
            first = next(iter(places.values()))
            whole = self._whole.get(self.spec["objects"][first]["storage"])
            reason = refuse(whole or self._signatures[first], named) or ""
            if reason:
                continue
            kernels = {stage: self._kernel(place, device) for stage, place in places.items()}
            broken = [k for k in kernels.values() if isinstance(k, str)]
            if broken:
                reason = broken[0]
                continue
            return assembled(self.spec, whole, kernels, named) if whole else kernels[""].bound(named)
        return reason

    def _candidates(self, named: dict[str, Any]) -> list[dict[str, int]]:
        """Objects by stage, the likely fastest first.

        Those of other dtypes come last: their refusal is the sentence that says what is wrong.
        """
        given = next((s for s, d in TORCH_DTYPES.items() if d == named[self.spec["a"]].dtype), "")
        found, objects = [], self.spec["objects"]
        for storage in sorted({o["storage"] for o in objects}, key=lambda s: s != given):
            by_stage = {
                stage: self._order(named, storage, stage)
                for stage in dict.fromkeys(o["stage"] for o in objects if o["storage"] == storage)
            }
            found += [dict(zip(by_stage, row, strict=True)) for row in zip(*by_stage.values(), strict=False)]
        return found

    def _order(self, named: dict[str, Any], storage: str, stage: str) -> list[int]:
        sizes: dict[str, int] = {}
        signature = self._whole.get(storage) or self._signatures[0]
        for name, spec in signature.tensors.items():
            if name in named and isinstance(named[name], torch.Tensor) and named[name].dim() == len(spec.shape):
                shape = zip(named[name].shape, spec.shape, strict=True)
                sizes.update({symbol: max(n // c, 1) for n, (c, symbol) in shape if symbol})
        best = sorted(
            (row for row in self.spec["best"].get(storage, ()) if row["stage"] == stage),
            key=lambda row: sum(abs(math.log2(row["sizes"][s] / sizes[s])) for s in row["sizes"] if s in sizes),
        )
        order = [row["schedule"] for row in best]
        return sorted(
            (i for i, o in enumerate(self.spec["objects"]) if (o["storage"], o["stage"]) == (storage, stage)),
            key=lambda i: order.index(s) if (s := self.spec["objects"][i]["schedule"]) in order else len(order),
        )

    def _kernel(self, place: int, device: torch.device) -> Any:
        """The loaded kernel, or why it cannot be used."""
        found = self._kernels.get((place, device.index))
        if found is None:
            try:
                found = Kernel(self.library(place), self._signatures[place])
            except (OSError, ImportError, AttributeError, RuntimeError) as error:
                found = f"the compiled object cannot be loaded: {str(error).splitlines()[0]}"
            self._kernels[place, device.index] = found
        return found
