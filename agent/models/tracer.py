"""The built-in tracer: a task's plain-PyTorch reference, translated into an epilogue. No network, no model.

The reference is run once on small float64 inputs while torch records every operation (make_fx); the one
product becomes the accumulator and the rest primitives.  What it answers it has checked against the
reference; what it cannot translate it says: which torch operation, and why.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

from ...primitives import Builder, Graph, GraphError, evaluate, to_source
from ...primitives.graph import OPERAND
from ...primitives.infer import check_output
from ...tasks import ProgramTask, Task, TaskError, Workload
from ...tasks.inputs import Inputs, draw
from ...tasks.layout import from_kernel, to_kernel
from ...tasks.oracle import cast, oracle
from . import aten_columns, aten_pointwise  # noqa: F401  (they enter their handlers)
from .recognise import recognise
from .translate import TracerError, Translation

__all__ = ["TracerError", "answer", "trace"]

_aten = torch.ops.aten
_SPELT_OUT: Any = get_decompositions(
    [
        *(_aten.leaky_relu, _aten.hardtanh, _aten.hardsigmoid, _aten.hardswish, _aten.elu, _aten.mish, _aten.glu),
        *(_aten.log_sigmoid_forward, _aten.addcmul, _aten.addcdiv, _aten.lerp),
        *(_aten.silu_backward, _aten.gelu_backward, _aten.sigmoid_backward, _aten.tanh_backward),
        *(_aten.threshold_backward, _aten.threshold, _aten._fused_rms_norm),
    ]
)
# M, N and K must differ from each other, from half and from twice each other, so that shapes tell them apart.
_TRACED = (10, 12, 14)
_CHECKED = (14, 20, 18)  # other sizes, so that a size that the reference uses as a number is noticed


def answer(task: Task) -> str:
    """A candidate's source for the task. Raises TracerError where it is out of reach."""
    return to_source(trace(task), task.name)


def trace(task: Task) -> Graph:
    """The epilogue that computes what the task's reference does. Raises TracerError where it is out of reach."""
    if isinstance(task, ProgramTask):
        raise TracerError(
            f"{task.name} is a program of {len(task.parts)} products, and its reference does not say which part of it "
            "belongs to which"
        )
    sizes = _sizes(task, _TRACED)
    try:
        inputs = _inputs(task, sizes, 0)
        oracle(task, inputs)
    except TaskError as error:
        raise TracerError(str(error)) from None
    translation = Translation(task, sizes)
    module = _record(task, inputs)
    outputs = {name: value.node for name, value in translation.run(module, inputs).items()}
    graph = recognise(_without_accumulated(task, translation.builder, outputs))
    if not graph.uses_accumulator:
        raise TracerError(f"the reference of {task.name} never uses the product {task.gemm}; there is nothing to fuse")
    for name, i in graph.outputs.items():
        try:
            check_output(name, graph.types[i])
        except GraphError as error:
            raise TracerError(f"the reference cannot be written as an epilogue: {error}") from None
    _verify(
        task,
        graph,
        sizes,
        "the reference seems to depend on something other than its inputs' values, or to change a tensor in place",
    )
    _verify(
        task,
        graph,
        _sizes(task, _CHECKED),
        "it does for one shape and not for another: the reference uses a size as a number; take it as an input",
    )
    return graph


def _sizes(task: Task, sides: tuple[int, int, int]) -> dict[str, int]:
    others = count(22, 8)
    fixed = dict(zip((task.m.symbol, task.n.symbol, task.k.symbol), sides, strict=True))
    return {s: fixed.get(s) or next(others) for s in task.symbols}


def _inputs(task: Task, sizes: dict[str, int], seed: int) -> Inputs:
    return cast(draw(task, Workload(sizes=sizes, seed=seed)), torch.float64)


def _record(task: Task, inputs: Inputs) -> torch.fx.GraphModule:
    """The reference's operations. Numbers become tensors of no dimension, so that they are not baked in."""

    def run(*tensors):
        return oracle(task, dict(zip(inputs, tensors, strict=True)))

    tensors = [v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=torch.float64) for v in inputs.values()]
    try:
        module = make_fx(run, decomposition_table=_SPELT_OUT)(*tensors)
    except Exception as error:
        text = str(error) or type(error).__name__
        if "tracing tensor" in text:
            raise TracerError(
                f"the reference of {task.name} makes a Python number of a tensor (a branch on it, float() or item()), "
                "which an epilogue cannot; write torch.where, or take the number as an input"
            ) from None
        raise TracerError(f"torch cannot record the reference of {task.name}: {text.splitlines()[0]}") from None
    module.graph.eliminate_dead_code()
    return module


def _without_accumulated(task: Task, builder: Builder, outputs: dict[str, int]) -> Graph:
    """The graph of what is added to outputs that accumulate in place: the reference adds to their old values."""
    outputs = {name: _change(builder, i, name) if name in task.accumulates else i for name, i in outputs.items()}
    graph = builder.finish(outputs).canonical()
    for node in graph.nodes:
        if node.op == OPERAND and node.name in task.accumulates:
            raise TracerError(
                f"the reference uses {node.name} other than by adding to it; an output that accumulates in place can "
                "only be added to"
            )
    return graph.model_copy(update={"operands": tuple(task.operands.values())})


def _change(builder: Builder, i: int, name: str) -> int:
    """What a sum adds to the operand `name`."""
    node = builder.nodes[i]
    before = builder.operand(name)
    if node.op in ("add", "sub"):
        left, right = node.args
        if left == before:
            return right if node.op == "add" else builder.add("neg", (right,))
        if right == before and node.op == "add":
            return left
        if _holds(builder, left, before):
            return builder.add(node.op, (_change(builder, left, name), right))
        if node.op == "add":
            return builder.add("add", (left, _change(builder, right, name)))
    raise TracerError(f"the reference does not return {name} plus something; {name} accumulates in place")


def _holds(builder: Builder, i: int, wanted: int) -> bool:
    stack = [i]
    while stack:
        i = stack.pop()
        if i == wanted:
            return True
        stack.extend(builder.nodes[i].args)
    return False


def _verify(task: Task, graph: Graph, sizes: dict[str, int], otherwise: str) -> None:
    """Compare with the reference on fresh inputs. otherwise: why they may differ."""
    inputs = _inputs(task, sizes, 1)
    expected = oracle(task, inputs)
    operands = {n: v if isinstance(v, float) else to_kernel(task, n, v) for n, v in inputs.items()}
    a, b = (torch.as_tensor(inputs[n]) for n in (task.gemm.a, task.gemm.b))
    acc = (a.T if task.gemm.a_transposed else a) @ (b.T if task.gemm.b_transposed else b)
    outputs = evaluate(graph, to_kernel(task, "acc", acc), operands)
    for name, value in expected.items():
        change = value - inputs[name] if name in task.accumulates else value
        got = from_kernel(task, name, outputs[name])
        scale = change.abs().nan_to_num(0, 0, 0).max().item()
        same = got.shape == change.shape
        if not same or not torch.allclose(got, change, rtol=1e-9, atol=1e-9 * scale, equal_nan=True):
            raise TracerError(
                f"the traced epilogue of {task.name} does not agree with the reference in {name}; {otherwise}"
            )
