"""A verified kernel as a PyTorch operator: the kernel where its record allows, its plain PyTorch reference elsewhere.

Registered as torch.ops.<id>.<name>, with a fake and the reference's gradient, recomputed.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .launch import TORCH_DTYPES, Kernel, refuse
from .signature import Signature

REMEMBERED = 1024


class Operator:
    """Called like the reference: inputs in order or by name; a tensor, or a tuple of them in the outputs' order.

    An accumulated output is the input of the same name, written in place.
    """

    def __init__(self, folder: Path, reference: Callable[..., dict]):
        """folder: of this package, with spec.json and objects/."""
        self.folder, self.reference = folder, reference
        self.spec = json.loads((folder / "spec.json").read_text())
        self.inputs, self.outputs = tuple(self.spec["inputs"]), self.spec["outputs"]
        self.accumulates = tuple(self.spec["accumulates"])
        self.__name__, self.__doc__ = self.spec["name"], self.spec["doc"]
        self._signatures: list[Any] = [Signature.read(o["signature"]) for o in self.spec["objects"]]
        self._plans: dict[tuple, Any] = {}
        self._kernels: dict[tuple[int, int | None], Any] = {}
        self._warned = False
        self._library = _registered(self)
        self.overload = getattr(getattr(torch.ops, self.spec["id"]), self.spec["name"]).default

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        values = self._in_order(inputs, named)
        fresh = self.overload(*values)
        if not self.accumulates:
            return fresh
        rest = iter(fresh if isinstance(fresh, (tuple, list)) else (fresh,))
        results = tuple(
            values[self.inputs.index(name)] if name in self.accumulates else next(rest) for name in self.outputs
        )
        return results[0] if len(results) == 1 else results

    def why_not(self, *inputs: Any, **named: Any) -> str | None:
        """Why these inputs run the reference, in one sentence; None if the kernel takes them."""
        plan = self._plan(self._in_order(inputs, named))
        return plan if isinstance(plan, str) else None

    def run(self, *values: Any) -> Any:
        """The new outputs: what the registered operator does on a device."""
        plan = self._plan(values)
        if not isinstance(plan, str):
            fresh = plan(values)
            return fresh[0] if len(fresh) == 1 else fresh
        if not self._warned:
            self._warned = True
            warnings.warn(f"{self.__name__} runs its unfused reference: {plan}", UserWarning, stacklevel=2)
        results = self.computed(values)
        for name in self.accumulates:
            values[self.inputs.index(name)].copy_(results[name])
        taken = [v.untyped_storage().data_ptr() for v in values if isinstance(v, torch.Tensor)]
        fresh = tuple(
            r.clone(memory_format=torch.contiguous_format)
            if r.untyped_storage().data_ptr() in taken
            else r.contiguous()
            for name, r in results.items()
            if name not in self.accumulates
        )
        return fresh[0] if len(fresh) == 1 else fresh

    def computed(self, values: tuple) -> dict[str, torch.Tensor]:
        """All outputs by the reference, in the declared dtypes."""
        small, storage = TORCH_DTYPES["fp8"], values[self.inputs.index(self.spec["a"])].dtype
        if storage == small:  # which torch does not multiply: the same numbers in bfloat16
            values = tuple(v.bfloat16() if isinstance(v, torch.Tensor) and v.dtype == small else v for v in values)
            storage = torch.bfloat16
        results = self.reference(*values)
        return {n: results[n].to(TORCH_DTYPES[d] if d else storage) for n, d in self.outputs.items()}

    def _in_order(self, inputs: tuple, named: dict[str, Any]) -> tuple:
        given = dict(zip(self.inputs, inputs, strict=False))
        if len(inputs) + len(named) != len(self.inputs) or set(given) | set(named) != set(self.inputs):
            raise ValueError(f"{self.__name__} takes {', '.join(self.inputs)}; pass each once")
        given.update(named)
        return tuple(given[name] for name in self.inputs)

    def _plan(self, values: tuple) -> Any:
        """A launch for inputs of this kind, or why there is none."""
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        key = tuple((v.shape, v.stride(), v.dtype, v.device, v.data_ptr() % 64) for v in tensors)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= REMEMBERED:
                self._plans.clear()
            plan = self._plans[key] = self._decided(values, tensors)
        return plan

    def _decided(self, values: tuple, tensors: list[torch.Tensor]) -> Any:
        device = values[self.inputs.index(self.spec["a"])].device
        if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
            return f"the tensors are on {device}, and the kernel runs on a Hopper GPU (H100, H200)"
        named = dict(zip(self.inputs, values, strict=True))
        reason = "there is no compiled object"
        for place in self._order(named):
            reason = refuse(self._signatures[place], named) or ""
            if reason:
                continue
            kernel = self._kernel(place, device)
            if isinstance(kernel, str):
                reason = kernel
                continue
            return kernel.bound(named)
        return reason

    def _order(self, named: dict[str, Any]) -> list[int]:
        """The objects, those first that won on the nearest tuned shape."""
        storage = next((s for s, d in TORCH_DTYPES.items() if d == named[self.spec["a"]].dtype), "")
        sizes: dict[str, int] = {}
        for name, spec in self._signatures[0].tensors.items():
            if name in named and isinstance(named[name], torch.Tensor) and named[name].dim() == len(spec.shape):
                shape = zip(named[name].shape, spec.shape, strict=True)
                sizes.update({symbol: max(n // c, 1) for n, (c, symbol) in shape if symbol})
        best = sorted(
            self.spec["best"].get(storage, ()),
            key=lambda row: sum(abs(math.log2(row["sizes"][s] / sizes[s])) for s in row["sizes"] if s in sizes),
        )
        order = [row["schedule"] for row in best]
        places = range(len(self._signatures))
        named_first = sorted(
            places,
            key=lambda i: order.index(s) if (s := self.spec["objects"][i]["schedule"]) in order else len(order),
        )
        # Objects of other dtypes stay in the list: their refusal is the sentence that says what is wrong.
        return sorted(named_first, key=lambda i: self.spec["objects"][i]["storage"] != storage)

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

    def library(self, place: int) -> Path:
        """The object's file. Raises OSError where it is not the one that was exported."""
        entry = self.spec["objects"][place]
        path = self.folder / "objects" / entry["file"]
        if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
            raise OSError(f"{path} was changed after it was exported; export it again")
        return path


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, *values: Any) -> Any:
        ctx.operator = operator
        ctx.constants = tuple(None if isinstance(v, torch.Tensor) else v for v in values)
        ctx.places = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
        ctx.save_for_backward(*(values[i] for i in ctx.places))
        ctx.set_materialize_grads(False)
        with torch._C._AutoDispatchBelowAutograd():
            return operator.overload(*values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        values = list(ctx.constants)
        for i, saved in zip(ctx.places, ctx.saved_tensors, strict=True):
            values[i] = saved
        wanted = [i for i in ctx.places if ctx.needs_input_grad[i + 1]]
        with torch.enable_grad():
            for i in wanted:
                values[i] = values[i].detach().requires_grad_()
            results = ctx.operator.computed(tuple(values)).values()
            used = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
            leaves = [values[i] for i in wanted]
            found = torch.autograd.grad([r for r, _ in used], leaves, [g for _, g in used], allow_unused=True)
        by_place = dict(zip(wanted, found, strict=True))
        return (None, *(by_place.get(i) for i in range(len(values))))


def _registered(operator: Operator) -> torch.library.Library:
    spec = operator.spec
    library = torch.library.Library(spec["id"], "DEF")
    library.define(spec["schema"], tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        library.impl(spec["name"], operator.run, key)

    def differentiable(*values: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values):
            if operator.accumulates:
                raise RuntimeError(f"{spec['name']} adds to {', '.join(operator.accumulates)} and has no gradient")
            return _Recompute.apply(operator, *values)
        with torch._C._AutoDispatchBelowAutograd():
            return operator.overload(*values)

    def fake(*values: Any) -> Any:
        results = operator.computed(values)
        fresh = tuple(r.new_empty(r.shape) for n, r in results.items() if n not in operator.accumulates)
        return fresh[0] if len(fresh) == 1 else fresh

    library.impl(spec["name"], differentiable, "Autograd")
    torch.library.register_fake(f"{spec['id']}::{spec['name']}", fake, lib=library)
    return library
