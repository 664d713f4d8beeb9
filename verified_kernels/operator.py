"""Operators: a task's kernel as `torch.ops.codasmith.NAME`, with a fake, a gradient and the reference behind it.

Registered through `torch.library.Library`, an implementation a device and an autograd function of our own;
`torch.library.custom_op` and `register_autograd` cost 10 to 20 microseconds a call more.  The dispatcher itself
costs several, so a call that nothing watches and whose kind was seen before goes straight to the kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from ..tasks import Task, shipped_task
from ..tasks.quantise import FP8
from . import gradient, inductor, unfused
from .assembly import Launch
from .errors import InputError
from .plan import Plan, returned
from .runner import Runner
from .sizes import Value, check_devices, check_kinds, sizes_of
from .store import Entry
from .watched import compiling, refuse_transforms

NAMESPACE = "codasmith"
_traced, _wants_gradients = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_registered: dict[str, tuple[str, Runner]] = {}
"""By operator name: the task's digest, and the state that its implementation reads."""


class Operator:
    """A loaded kernel, called like the task's reference.

    Inputs in the reference's order or by keyword; the result is a tensor, or a tuple of tensors in the
    order of the task's outputs.  An output that the task accumulates is the input of the same name,
    written in place.  Under autocast, inputs of the storage dtype are cast as a linear layer's would be.
    """

    def __init__(self, task: Task, qualified: str, runner: Runner):
        self.task, self.qualified, self._runner = task, qualified, runner
        self.name = task.name
        """What `load` was asked for."""
        self.overload = getattr(getattr(torch.ops, NAMESPACE), qualified).default
        self._names = tuple(task.tensors)
        self._pick = itemgetter(*self._names)  # a task has two operands at least, so this gives a tuple
        self._storage = tuple(t.dtype is None and bool(t.dimensions) for t in task.tensors.values())
        self._a = self._names.index(task.leading)
        self._inputs_returned = tuple(self._names.index(n) if n in task.accumulates else -1 for n in task.outputs)
        self.__name__, self.__doc__ = task.name, task.doc
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in self._names]
        )

    @property
    def entry(self) -> Entry | None:
        """The best of the registry's entries behind it, or None where the reference runs."""
        return self._runner.entries[0] if self._runner.entries else None

    def __call__(self, *inputs: Value, **named: Value) -> torch.Tensor | tuple[torch.Tensor, ...]:
        if named or len(inputs) != len(self._names):
            inputs = self._in_order(inputs, named)
        if not _traced():
            plan: Plan | None = self._runner.last
            if not plan.guard(*inputs):  # type: ignore[union-attr]
                plan = self._runner.remembered(inputs)
            if plan is not None and plan.launch is not None:
                if plan.differentiable and _wants_gradients():
                    fresh = gradient.differentiable_launch(self.task, self._runner.twin, plan.launch, inputs)
                else:
                    fresh = plan.launch(inputs)
                return fresh[0] if len(fresh) == 1 else fresh
            refuse_transforms(self.task.name)
        check_kinds(self.task, inputs)
        kind = inputs[self._a].device.type
        if kind != "meta" and torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
            inputs = tuple(
                v.to(dtype) if s and v.dtype != FP8 else v for v, s in zip(inputs, self._storage, strict=True)
            )
        fresh = self.overload(*inputs)
        if not self.task.accumulates:
            return fresh
        rest = iter(fresh if isinstance(fresh, tuple | list) else (fresh,))
        results: tuple[torch.Tensor, ...] = tuple(inputs[i] if i >= 0 else next(rest) for i in self._inputs_returned)
        return results[0] if len(results) == 1 else results

    @property
    def gradient(self) -> Operator | None:
        """The operator that computes the gradient; None where the reference, run again, is differentiated."""
        return self._runner.twin.operator if self._runner.twin else None

    def only(self, inputs: tuple[Value, ...], wanted: frozenset[int]) -> Sequence[Any]:
        """The outputs of these places; others may be None, where a program need not run all its stages."""
        if len(wanted) < len(self.task.outputs) and not torch.compiler.is_compiling():
            plan = self._runner.remembered(inputs)
            if plan is not None and isinstance(plan.launch, Launch):
                return plan.launch.only(inputs, wanted)
        found = self(*inputs)
        return found if isinstance(found, tuple | list) else (found,)

    def why_not(self, *inputs: Value, **named: Value) -> str | None:
        """Why these inputs would run the reference, in one sentence; None if the kernel takes them."""
        values = self._in_order(inputs, named)
        check_kinds(self.task, values)
        plan = self._runner.plan(values)
        return None if plan.launch else plan.reason

    def explain(self, *inputs: Value, **named: Value) -> str:
        """What these inputs would run, and why, in one sentence."""
        values = self._in_order(inputs, named)
        check_kinds(self.task, values)
        plan = self._runner.plan(values)
        text = f"{self.task.name} runs {plan.chosen or f'its unfused reference: {plan.reason}'}"
        why = self._runner.traced(values)
        return f"{text}; traced by torch.compile, it leaves the reference to the compiler: {why}" if why else text

    def _in_order(self, inputs: tuple[Value, ...], named: dict[str, Value]) -> tuple[Value, ...]:
        names = self._names
        if len(inputs) + len(named) == len(names):
            try:
                if not inputs and not _traced():  # torch.compile knows no itemgetter
                    return self._pick(named)
                return (*inputs, *[named[name] for name in names[len(inputs) :]])
            except KeyError:
                pass  # named below
        given = dict(zip(names, inputs, strict=False))
        wrong = [n for n in named if n not in names or n in given]
        missing = [n for n in names if n not in given and n not in named]
        if wrong or missing or len(inputs) > len(names):
            found = "there are more"
            if wrong or missing:
                found = f"{wrong[0]} is not expected" if wrong else f"{missing[0]} is missing"
            raise InputError(f"{self.task.name} takes {', '.join(names)}, and {found}; pass each once")
        return tuple(given[n] if n in given else named[n] for n in names)

    def __deepcopy__(self, memo: dict) -> Operator:
        return self  # a copied model calls the same kernel

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled model loads its kernels anew, by their names."""
        return _loaded, (self.name, self._runner.strict, self._runner.batch_invariant)

    def __repr__(self) -> str:
        behind = self.entry.name if self.entry else "no admitted kernel, runs the reference"
        return f"<operator {self.task.name}({', '.join(self._names)}): {behind}>"


def _loaded(name: str, strict: bool, batch_invariant: bool) -> Operator:
    from .load import load  # which imports this module

    return load(name, strict, batch_invariant=batch_invariant)


def schema(task: Task, qualified: str) -> str:
    """The operator's schema: tensors, floats, and ints for index scalars; accumulated tensors are written to."""
    parameters = []
    for place, (name, tensor) in enumerate(task.tensors.items()):
        if not tensor.dimensions:
            kind = "int" if tensor.is_index else "float"
        else:
            kind = f"Tensor(a{place}!)" if name in task.accumulates else "Tensor"
        parameters.append(f"{kind} {name}")
    fresh = ["Tensor"] * sum(name not in task.accumulates for name in task.outputs)
    result = fresh[0] if len(fresh) == 1 else f"({', '.join(fresh)})"
    return f"{qualified}({', '.join(parameters)}) -> {result}"


def register(task: Task, runner: Runner, variant: str = "") -> Operator:
    """Make the operator, or point the one that this process has already at a new runner."""
    qualified = task.name + variant
    if shipped_task(task.name) is not task:
        # torch.compile keeps what it compiled on disk, by operators' names, and a task's author edits its reference.
        qualified += f"_{task.digest[:8]}"
    if qualified in _registered:
        state = _registered[qualified][1]
        state.__dict__.update(runner.__dict__)
        return Operator(task, qualified, state)
    _registered[qualified] = (task.digest, runner)
    _define(task, qualified, runner)
    return Operator(task, qualified, runner)


def _define(task: Task, qualified: str, runner: Runner) -> None:
    _library.define(schema(task, qualified), tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        _library.impl(qualified, runner, key)
    overload = getattr(getattr(torch.ops, NAMESPACE), qualified).default
    inductor.announce(overload)
    _library.impl(qualified, gradient.differentiable(task, overload, lambda: runner.twin), "Autograd")

    def fake(*values: Value) -> Any:
        sizes = sizes_of(task, values)
        check_devices(task, values)
        a = values[list(task.tensors).index(task.leading)]
        fresh = tuple(
            a.new_empty(tensor.size(sizes), dtype=unfused.output_dtype(task, name, values))
            for name, tensor in task.outputs.items()
            if name not in task.accumulates
        )
        return returned(fresh)

    torch.library.register_fake(f"{NAMESPACE}::{qualified}", fake, lib=_library)

    def traced(mode: Any, overload: Any, types: Any, args: tuple[Value, ...], kwargs: Any) -> Any:
        """Where torch.compile's own kernel was faster, its trace has the reference in the operator's place."""
        with mode:
            if compiling():
                inductor.prepare()
                if runner.traced(args):
                    return returned(unfused.run(task, args))
        return mode.__torch_dispatch__(overload, types, args, kwargs)

    torch.library.register_torch_dispatch(f"{NAMESPACE}::{qualified}", ProxyTorchDispatchMode, traced, lib=_library)
