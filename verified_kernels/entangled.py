"""Why a module must stay whatever it computes: somebody hooks into it, or another part of the model has its weights."""

from __future__ import annotations

from collections import Counter

from torch import nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def shared(model: nn.Module) -> frozenset[int]:
    """The ids of parameters, and of modules that have some, which stand in more than one place of the model."""
    uses: Counter[int] = Counter()
    for owner in model.modules():
        uses.update(id(weight) for weight in owner._parameters.values() if weight is not None)
        children = [child for child in owner._modules.values() if child is not None]
        uses.update(id(child) for child in children if next(child.parameters(), None) is not None)
    return frozenset(found for found, times in uses.items() if times > 1)


def entangled(module: nn.Module, among: frozenset[int]) -> str:
    """Why this module cannot make room for another, in one clause; empty if it can. among: what `shared` found."""
    for name, part in module.named_modules():
        what = name or "it"
        if any(getattr(part, hooks) for hooks in HOOKS):
            return f"{what} has hooks, which would not run any more; remove them, or put them on after patching"
        if "forward" in vars(part):
            return f"the forward of {name or 'the module'} was exchanged, for one that would not run any more"
        if id(part) in among:
            return f"{what} stands in the model more than once, and the places would no longer share its weights"
        for key, weight in part._parameters.items():
            title = f"{name}.{key}".lstrip(".")
            if weight is not None and id(weight) in among:
                return f"{title} is shared with another module, and would no longer be"
            if weight is not None and (weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None)):
                return f"{title} has hooks, which would not run any more; remove them, or put them on after patching"
    return ""
