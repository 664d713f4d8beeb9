"""A verified kernel as a PyTorch operator: the kernel where its record allows, its plain PyTorch reference elsewhere.

Registered as torch.ops.<id>.<name>, with a fake.  The gradient is the reference's, recomputed; a program that brought
its backward program along is differentiated by that.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .choice import Kernels
from .launch import TORCH_DTYPES


class Operator:
    """Called like the reference: inputs in order or by name; a tensor, or a tuple of them in the outputs' order.

    An accumulated output is the input of the same name, written in place.
    """

    def __init__(self, folder: Path, reference: Callable[..., dict], spec: str = "spec.json", twin: Any = None):
        """folder: of this package, with objects/ and the file `spec`. twin: the backward program's operator."""
        self.folder, self.reference, self.twin = folder, reference, twin
        self.spec = json.loads((folder / spec).read_text())
        self.inputs, self.outputs = tuple(self.spec["inputs"]), self.spec["outputs"]
        self.accumulates = tuple(self.spec["accumulates"])
        self.__name__, self.__doc__ = self.spec["name"], self.spec["doc"]
        self._kernels = Kernels(folder, self.spec)
        self.library = self._kernels.library
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
        plan = self._kernels.plan(self._in_order(inputs, named))
        return plan if isinstance(plan, str) else None

    def run(self, *values: Any) -> Any:
        """The new outputs: what the registered operator does on a device."""
        plan = self._kernels.plan(values)
        if not isinstance(plan, str):
            return _returned(plan(values))
        if not self._warned:
            self._warned = True
            warnings.warn(f"{self.__name__} runs its unfused reference: {plan}", UserWarning, stacklevel=2)
        results = self.computed(values)
        taken = [v.untyped_storage().data_ptr() for v in values if isinstance(v, torch.Tensor)]
        fresh = tuple(
            r.clone(memory_format=torch.contiguous_format)
            if r.untyped_storage().data_ptr() in taken
            else r.contiguous()
            for name, r in results.items()
            if name not in self.accumulates
        )
        for name in self.accumulates:
            values[self.inputs.index(name)].copy_(results[name])
        return _returned(fresh)

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


def _returned(fresh: tuple) -> Any:
    """New outputs as an operator returns them: the only one bare, None for none."""
    return (fresh[0] if len(fresh) == 1 else fresh) if fresh else None


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, *values: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            results = operator.overload(*values)
        outputs = results if isinstance(results, (tuple, list)) else (results,)
        ctx.operator = operator
        ctx.constants = tuple(None if isinstance(v, torch.Tensor) else v for v in values)
        ctx.places = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
        ctx.kept = [i for kind, i in operator.spec["twin"]["reads"] if kind == "output"] if operator.twin else []
        ctx.shapes = [(o.shape, o.dtype, o.device) for o in outputs]
        ctx.save_for_backward(*(values[i] for i in ctx.places), *(outputs[i] for i in ctx.kept))
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        values, saved = list(ctx.constants), ctx.saved_tensors
        for i, tensor in zip(ctx.places, saved):  # noqa: B905 (outputs may follow)
            values[i] = tensor
        wanted = [i for i in ctx.places if ctx.needs_input_grad[i + 1]]
        outputs = dict(zip(ctx.kept, saved[len(ctx.places) :], strict=True))
        found = _by_twin(ctx, grads, values, outputs, wanted)
        by_place = _recomputed(ctx.operator, values, grads, wanted) if found is None else found
        return (None, *(by_place.get(i) for i in range(len(values))))


def _by_twin(ctx: Any, grads: tuple, values: list, outputs: dict, wanted: list[int]) -> dict[int, Any] | None:
    """Gradients by the places of inputs, from the backward program; None where it does not give what is asked."""
    twin = ctx.operator.twin
    if twin is None or all(g is None for g in grads):
        return None
    reads, gives = (
        ctx.operator.spec["twin"]["reads"],
        {int(k): v for k, v in ctx.operator.spec["twin"]["gives"].items()},
    )
    known = {i for kind, i in reads if kind == "grad"}
    if any(g is not None and i not in known for i, g in enumerate(grads)) or any(i not in gives for i in wanted):
        return None
    given = []
    for kind, i in reads:
        if kind == "grad":
            shape, dtype, device = ctx.shapes[i]
            given.append(torch.zeros(shape, dtype=dtype, device=device) if grads[i] is None else grads[i].contiguous())
        else:
            given.append(outputs[i] if kind == "output" else values[i])
    found = twin(*given)
    found = found if isinstance(found, (tuple, list)) else (found,)
    return {i: found[gives[i]].to(values[i].dtype) for i in wanted}


def _recomputed(operator: Operator, values: list, grads: tuple, wanted: list[int]) -> dict[int, Any]:
    with torch.enable_grad():
        for i in wanted:
            values[i] = values[i].detach().requires_grad_()
        results = operator.computed(tuple(values)).values()
        used = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
        leaves = [values[i] for i in wanted]
        if not used:
            return {}
        found = torch.autograd.grad([r for r, _ in used], leaves, [g for _, g in used], allow_unused=True)
    return dict(zip(wanted, found, strict=True))


def _registered(operator: Operator) -> torch.library.Library:
    spec = operator.spec
    library = torch.library.Library(spec["id"], "FRAGMENT")
    library.define(spec["schema"], tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        library.impl(spec["name"], operator.run, key)

    def differentiable(*values: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values):
            if operator.accumulates:
                raise RuntimeError(f"{spec['name']} adds to {', '.join(operator.accumulates)} and has no gradient")
            return _Differentiable.apply(operator, *values)
        with torch._C._AutoDispatchBelowAutograd():
            return operator.overload(*values)

    def fake(*values: Any) -> Any:
        results = operator.computed(values)
        fresh = tuple(r.new_empty(r.shape) for n, r in results.items() if n not in operator.accumulates)
        return _returned(fresh)

    library.impl(spec["name"], differentiable, "Autograd")
    torch.library.register_fake(f"{spec['id']}::{spec['name']}", fake, lib=library)
    return library
