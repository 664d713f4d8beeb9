"""Where a kernel's float32 arithmetic is provably exact, so that its outputs must be, up to one rounding.

Small whole numbers (and halves, quarters) added and multiplied stay exact in float32 as long as each value,
counted in its smallest step, is below 2^24.  Sums are exact in any order if the sum of magnitudes is.
The proof is made on the numbers at hand: nothing is claimed of others.
"""

from __future__ import annotations

import math

import torch

from ..primitives.graph import ACC, CONST, EVEN, ODD, OPERAND, PACK, Graph, Node
from ..primitives.interpret import evaluate
from ..tasks.inputs import Inputs
from ..tasks.layout import accumulator, to_kernel
from ..tasks.oracle import cast
from ..tasks.task import Task

_LIMIT = 2.0**24
_FINEST = 24

_SAME_STEP = {"add", "sub", "neg", "abs", "maximum", "minimum", "clamp", "relu", "relu_sq_grad"}
_TRUTH = {"lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or"}
_SUMS = {"row_sum": -1, "col_sum": -2}
_PICKS = {"row_max", "col_max", "row_absmax", "col_absmax", "select"}
_COORDINATES = {"column_index", "row_index"}
_OTHERS = {"mul", "div", "where", "relu_sq", "relu_grad", ACC, OPERAND, CONST, EVEN, ODD, PACK}
_OPS = _SAME_STEP | _TRUTH | set(_SUMS) | _PICKS | _COORDINATES | _OTHERS


def is_polynomial(graph: Graph) -> bool:
    """Whether the graph only adds, multiplies, compares and chooses, with constants exact in few bits.

    Such an epilogue is exact on small whole numbers; division is by powers of two only.
    """
    graph = graph.canonical()
    return all(
        node.op in _OPS
        and (node.op != CONST or _step(torch.tensor(node.value, dtype=torch.float64)) is not None)
        and (node.op != "div" or _power_of_two(graph.nodes[node.args[1]]) is not None)
        for node in graph.nodes
    )


def exact_outputs(task: Task, graph: Graph, inputs: Inputs) -> frozenset[str]:
    """The outputs that float32 arithmetic computes without any error from these inputs before rounding them.

    Meant for the "integers" family. An output counts by what leads to it: logits beside a log-sum-exp are exact.
    """
    graph = graph.canonical()
    wide = cast(inputs, torch.float64)
    operands = {n: to_kernel(task, n, v) if isinstance(v := wide[n], torch.Tensor) else v for n in task.operands}
    acc = accumulator(task, wide)
    types = graph.types
    every = {f"{i}": i for i, t in enumerate(types) if t.dtype != "index"}
    values = evaluate(graph.model_copy(update={"outputs": every}), acc, operands)
    steps: list[int | None] = []
    for i, node in enumerate(graph.nodes):
        if node.op == ACC:
            step = _product_step(task, wide)
        elif node.op == OPERAND and types[i].dtype == "index":
            step = 0
        elif node.op in (OPERAND, CONST):
            step = _step(values[f"{i}"])
        else:
            step = _result_step(graph, node, steps, [_cut(values.get(f"{a}"), types[a].cols) for a in node.args])
        if step is not None and f"{i}" in values and not _fits(values[f"{i}"], step):
            step = None
        steps.append(step)
    return frozenset(
        name
        for name, i in graph.outputs.items()
        if (step := steps[i]) is not None
        and (
            name not in task.accumulates or _adds_exactly(task, name, torch.as_tensor(wide[name]), values[f"{i}"], step)
        )
    )


def _product_step(task: Task, wide: Inputs) -> int | None:
    a, b = _step(torch.as_tensor(wide[task.gemm.a])), _step(torch.as_tensor(wide[task.gemm.b]))
    if a is None or b is None:
        return None
    magnitudes = {n: torch.as_tensor(wide[n]).abs() for n in (task.gemm.a, task.gemm.b)}
    return a + b if _fits(accumulator(task, magnitudes), a + b) else None


def _result_step(graph: Graph, node: Node, steps: list[int | None], args: list[torch.Tensor | None]) -> int | None:
    """The step of an operation's result, if its arguments have one."""
    known = [step for a in node.args if (step := steps[a]) is not None]
    if node.op not in _OPS or len(known) < len(node.args):
        return None
    if node.op in _TRUTH | _COORDINATES or node.op == "relu_grad":
        return 0
    if node.op == "mul":
        return sum(known)
    if node.op == "relu_sq":
        return 2 * known[0]
    if node.op == "div":
        power = _power_of_two(graph.nodes[node.args[1]])
        return None if power is None else max(known[0] + power, 0)
    if node.op in _SUMS:
        terms = torch.ones((), dtype=torch.float64)
        for a in args:
            assert a is not None
            terms = terms.to(a.device) * a.abs()
        return sum(known) if _fits(terms.sum(_SUMS[node.op]), sum(known)) else None
    return max(known)


def _cut(value: torch.Tensor | None, cols: int) -> torch.Tensor | None:
    """One column of a value that is the same in all of them, whatever width it was spread over."""
    return value[:, :1] if value is not None and value.ndim == 2 and not cols else value


def _adds_exactly(task: Task, name: str, before: torch.Tensor, change: torch.Tensor, step: int) -> bool:
    """An accumulated output: its change is rounded to the output's dtype before it is added, so float32 only."""
    start = _step(before)
    if task.outputs[name].dtype != "f32" or start is None:
        return False
    return _fits(before.abs().max() + change.abs().max(), max(start, step))


def _fits(values: torch.Tensor, step: int) -> bool:
    """Whether every value is below 2^24 steps of 2^-step. NaN and infinities are not."""
    return values.dtype == torch.bool or bool((values.abs() * 2.0**step < _LIMIT).all())


def _step(values: torch.Tensor) -> int | None:
    """The smallest q for which all values are multiples of 2^-q; None beyond 24, or if some are not finite."""
    scaled = values.double()
    if not bool(torch.isfinite(scaled).all()):
        return None
    for q in range(_FINEST + 1):
        if bool((scaled == scaled.round()).all()):
            return q
        scaled = scaled * 2
    return None


def _power_of_two(node: Node) -> int | None:
    """The exponent, if the node is a constant that is a positive power of two."""
    if node.op != CONST or node.value <= 0:
        return None
    mantissa, exponent = math.frexp(node.value)
    return exponent - 1 if mantissa == 0.5 else None
