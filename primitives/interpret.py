"""Computes a graph on torch tensors: the meaning of an epilogue, for the oracle and for people."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .graph import ACC, COMPARISONS, CONST, EVEN, HEAD_SUM, ODD, OPERAND, Graph, GraphError
from .primitive import REGISTRY
from .types import FULL, WIDTHS, Operand


def evaluate(graph: Graph, acc: torch.Tensor, operands: Mapping[str, torch.Tensor | float]) -> dict[str, torch.Tensor]:
    """The outputs of an epilogue on an accumulator, computed in the accumulator's dtype and on its device.

    acc: [M, N], columns as the kernel sees them (paired columns alternate).
    operands: by name, in their own shapes: [M, N] (or half or twice as wide) for tiles, [N] for one value
        a column, [M] for one a row and for column numbers, a number or a tensor of one element for scalars.

    Returns stored values as [M, N] (or half or twice as wide), row reductions as [M], column reductions as
    [N] (or of their width).  Raises GraphError for a missing operand or one of the wrong shape.
    """
    if acc.ndim != 2:
        raise GraphError(f"acc has shape {list(acc.shape)}.", "Pass a matrix [M, N].", "bad-operand")
    given = {o.name: _on_grid(o, operands, acc) for o in graph.used_operands}
    graph = graph.canonical()
    types = graph.types
    values: list[torch.Tensor] = []
    last = {a: i for i, node in enumerate(graph.nodes) for a in node.args}
    kept = {*graph.outputs.values()}
    for number, node in enumerate(graph.nodes):
        args = [values[a] for a in node.args]
        for a in node.args:
            if last[a] == number and a not in kept:
                values[a] = torch.empty(0)  # of a long epilogue's values only few are held at a time
        if node.op == ACC:
            value = acc
        elif node.op == OPERAND:
            value = given[node.name]
        elif node.op == CONST:
            value = torch.full((1, 1), node.value, dtype=acc.dtype, device=acc.device)
        elif node.op in (EVEN, ODD):
            value = REGISTRY["unpack"].torch(*args)[node.op == ODD]
        elif node.op == HEAD_SUM:
            value = REGISTRY[node.op].torch(_divisible(args[0], int(node.value)), node.value)
        elif node.op in COMPARISONS:
            args = [_numbers(a, acc) if types[i].dtype == "index" else a for i, a in zip(node.args, args, strict=True)]
            value = REGISTRY[node.op].torch(*args)
        else:
            value = REGISTRY[node.op].torch(*args)
        values.append(value)
    outputs = {}
    for name, i in graph.outputs.items():
        value, kind = values[i], types[i]
        if not kind.reduced:
            value = value.expand(acc.shape[0], -1 if kind.cols else acc.shape[1])
        # Never hand out the caller's own tensor, nor a view of it.
        outputs[name] = value.clone() if graph.nodes[i].op in (ACC, OPERAND, EVEN, ODD) else value
    return outputs


def _divisible(x: torch.Tensor, head_dim: int) -> torch.Tensor:
    if x.shape[-1] % head_dim:
        raise GraphError(
            f"The accumulator has {x.shape[-1]} columns, which are no whole heads of {head_dim}.",
            f"Declare the product's columns as a multiple of {head_dim}, such as {head_dim}H.",
            "bad-head-dim",
        )
    return x


def _numbers(index: torch.Tensor, acc: torch.Tensor) -> torch.Tensor:
    """Column numbers, one a row, as values to compare with."""
    return index.to(acc.dtype).reshape(-1, 1)


def _on_grid(operand: Operand, operands: Mapping[str, torch.Tensor | float], acc: torch.Tensor) -> torch.Tensor:
    """An operand as a matrix, of one row or column where it is the same in all of them; column numbers as [M]."""
    name = operand.name
    if name not in operands:
        raise GraphError(f"The operand {name} is missing.", f"Pass it: {name}=...", "bad-operand")
    tensor = torch.as_tensor(operands[name], device=acc.device)
    m, n = acc.shape
    width = n * operand.cols // FULL
    shapes = {"tile": (m, width), "row": (width,), "col": (m,), "index": (m,), "scalar": ()}
    expected = shapes[operand.kind]
    if operand.kind == "scalar" and tensor.numel() == 1:
        tensor = tensor.reshape(())
    if tuple(tensor.shape) != expected:
        raise GraphError(
            f"The operand {name} has shape {list(tensor.shape)}, and {list(expected)} is expected.",
            f"It is a {operand.kind} operand of width {WIDTHS[operand.cols]} beside an accumulator [{m}, {n}].",
            "bad-operand",
        )
    if operand.index:
        return tensor
    return tensor.to(acc.dtype).reshape(m if operand.rows else 1, width or 1)
