"""Stage 2: does the graph say what the reference says? Both in float64, on small workloads, on the CPU.

A wrong formula is named by output and pattern before anything is compiled.  Only the closed tier has a graph.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import torch

from ..primitives.graph import Graph, GraphError
from ..primitives.interpret import evaluate
from ..tasks.errors import TaskError
from ..tasks.inputs import Inputs, draw
from ..tasks.layout import accumulator, from_kernel, to_kernel
from ..tasks.oracle import cast, oracle
from ..tasks.task import Task
from ..tasks.workload import Workload
from .far import InFloat32, all_near, down, far_down, far_workloads
from .patterns import diagnose
from .remedies import remedy
from .verdict import Finding, StageResult

AGREE = 1e-9
"""The same expression written otherwise differs by this share of an output's scale at most: float64 rounds at
1e-16, and sums of some hundred terms and mild cancellation leave far less than a millionfold of that."""
ACCEPT = 1e-6
"""What is let pass: a kernel computes in float32, so constants written with seven digits and any rearrangement of
float32 accuracy are as good. The smallest real mistakes (the tanh form of GELU) are a hundred times larger."""

_WORKLOADS = 3  # ordinary, a single row of whole numbers, and all families in blocks of rows
_KEPT: dict[str, tuple[_Case, ...]] = {}
_KEEP = 64


@dataclass(frozen=True)
class _Case:
    """One workload: inputs in float64, the reference's answer, and both with one operand exchanged."""

    task: Task
    workload: Workload

    @cached_property
    def inputs(self) -> Inputs:
        return cast(draw(self.task, self.workload), torch.float64)

    @cached_property
    def expected(self) -> dict[str, torch.Tensor]:
        return oracle(self.task, self.inputs)

    @cached_property
    def acc(self) -> torch.Tensor:
        return accumulator(self.task, self.inputs)

    @cached_property
    def exchanged(self) -> dict[str, tuple[Inputs, dict[str, torch.Tensor]]]:
        """For each operand: the inputs with that one drawn anew, and the reference's answer to them."""
        other = cast(
            draw(self.task, self.workload.model_copy(update={"seed": self.workload.seed + 1000})), torch.float64
        )
        changed = {name: {**self.inputs, name: other[name]} for name in self.task.operands}
        return {name: (inputs, oracle(self.task, inputs)) for name, inputs in changed.items()}


def interpret_stage(task: Task, graph: Graph) -> StageResult:
    """Compare a graph that passed the read stage with the task's reference.

    Data of a passed stage: max_relative, the largest difference of each output as a share of its scale.
    Raises TaskError if the reference itself fails: that is no fault of the candidate.
    """
    started = time.perf_counter()
    largest = dict.fromkeys(task.outputs, 0.0)
    finding = _interpret(task, graph, largest)
    worst = max(largest.values())
    note = f"agrees with the reference in float64 on {_WORKLOADS} workloads"
    if worst > AGREE:
        note += f", to {worst:.0e} of the scale (rounded constants, or an approximation of float32 accuracy)"
    return StageResult(
        stage="interpret",
        outcome="failed" if finding else "passed",
        seconds=time.perf_counter() - started,
        finding=finding,
        note="" if finding else note,
        data={} if finding else {"max_relative": largest},
    )


def _interpret(task: Task, graph: Graph, largest: dict[str, float]) -> Finding | None:
    cases = _cases(task)
    finding = _ignored(task, graph, cases[0])
    for case in cases:
        if finding:
            return finding
        finding = _compare(case, graph, case.inputs, case.expected, largest)
    # What agrees on these inputs must follow the reference when one operand changes.
    for name, (inputs, expected) in cases[0].exchanged.items():
        if finding:
            return finding
        finding = _compare(cases[0], graph, inputs, expected, largest, changed=name)
    for workload in far_workloads(task, [graph]):
        finding = finding or _far(_Case(task, workload), graph, largest)
    return finding


def _far(case: _Case, graph: Graph, largest: dict[str, float]) -> Finding | None:
    task = case.task
    asked = [("", graph)]
    if all_near(task, case.workload):
        asked += [("its row", moved) for moved in far_down(task, graph, down())]
    for changed, one in asked:
        if finding := _compare(case, one, case.inputs, case.expected, largest, changed=changed):
            return finding
    single = InFloat32(task, case.workload, case.expected)
    acc = accumulator(task, single.inputs)
    for changed, one in asked:
        when = f" when {changed} changes" if changed else ""
        if finding := single.finding(_answer(task, one, acc, single.inputs), when):
            return finding
    return None


def _cases(task: Task) -> tuple[_Case, ...]:
    """Kept between candidates: the reference does not change with them."""
    if task.digest not in _KEPT:
        while len(_KEPT) >= _KEEP:
            _KEPT.pop(next(iter(_KEPT)), None)
        _KEPT[task.digest] = tuple(_Case(task, w) for w in task.correctness_workloads()[:_WORKLOADS])
    return _KEPT[task.digest]


def _ignored(task: Task, graph: Graph, case: _Case) -> Finding | None:
    """An operand that the candidate does not read although the reference's answer changes with it."""
    used = {o.name for o in graph.used_operands}
    for name in task.operands:
        if name in used:
            continue
        moved = case.exchanged[name][1]
        for output, before in case.expected.items():
            if difference(moved[output], before) > ACCEPT:
                return Finding(
                    code="ignored-operand",
                    message=f"The epilogue never uses {name}, and the reference's {output} changes with it.",
                    remedy=f"Take {name} as a parameter and use it; see the reference.",
                    output=output,
                )
    return None


def _compare(
    case: _Case,
    graph: Graph,
    inputs: Inputs,
    expected: dict[str, torch.Tensor],
    largest: dict[str, float],
    changed: str = "",
) -> Finding | None:
    try:
        answer = _answer(case.task, graph, case.acc, inputs)
    except GraphError as error:
        return Finding(code=error.code, message=error.message, remedy=error.remedy)
    for name, value in expected.items():
        found = difference(answer[name], value)
        largest[name] = max(largest[name], found)
        if found > ACCEPT:
            return _finding(case, graph, inputs, name, answer[name], value, changed)
    return None


def _answer(task: Task, graph: Graph, acc: torch.Tensor, inputs: Inputs) -> dict[str, torch.Tensor]:
    """The graph's outputs in the task's layout; where it returns the change of an output, with that added."""
    operands = {k: to_kernel(task, k, v) if isinstance(v := inputs[k], torch.Tensor) else v for k in task.operands}
    outputs = evaluate(graph, acc, operands)
    answer = {k: from_kernel(task, k, v) for k, v in outputs.items()}
    return {k: torch.as_tensor(inputs[k]) + v if k in task.accumulates else v for k, v in answer.items()}


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference as a share of the expected values' scale; infinite where NaN or infinities differ."""
    finite = torch.isfinite(expected)
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    if bool((~same & ~(finite & torch.isfinite(actual))).any()):
        return float("inf")
    error = float(torch.where(finite, (actual - expected).abs(), 0.0).amax())
    scale = float(torch.where(finite, expected.abs(), 0.0).amax())
    return error / scale if scale else (float("inf") if error else 0.0)


# --- a failure, in words ---------------------------------------------------------------------------


def _finding(
    case: _Case, graph: Graph, inputs: Inputs, name: str, actual: torch.Tensor, expected: torch.Tensor, changed: str
) -> Finding:
    scale = float(torch.where(torch.isfinite(expected), expected.abs(), 0.0).amax())
    found = diagnose(
        name,
        actual,
        expected,
        case.task,
        variants=_variants(case, inputs, name),
        tolerance=ACCEPT * scale,
    )
    pattern, worst = found["pattern"], found["worst"]
    place = ", ".join(map(str, worst["index"]))
    message = f"The output {name} differs from the reference"
    if changed:
        message += f" when {changed} changes"
    message += f": {pattern}" if pattern else f" in {found['wrong']} of {found['elements']} elements"
    message += f"; {name}[{place}] is {worst['value']:.6g} and should be {worst['expected']:.6g}."
    return Finding(
        code="wrong-values",
        message=message,
        remedy=_remedy(case.task, name, pattern),
        line=graph.nodes[graph.outputs[name]].line,
        output=name,
        details={**found, "workload": case.workload.label, "family": case.workload.family},
    )


def _remedy(task: Task, name: str, pattern: str) -> str:
    if found := remedy(name, pattern):
        return found
    if name in task.accumulates:
        return f"Return the change of {name} only: it is added to what {name} holds."
    return "Compare the formula with the reference, term by term."


def _variants(case: _Case, inputs: Inputs, name: str) -> dict[str, torch.Tensor]:
    """The output after likely mistakes: an operand left out, negated, its pairs exchanged; no epilogue at all."""
    task = case.task
    mistakes: dict[str, Inputs] = {}
    for operand, declared in task.operands.items():
        value = inputs[operand]
        for neutral in (0,) if declared.index else (0, 1):
            plain = torch.full_like(value, neutral) if isinstance(value, torch.Tensor) else float(neutral)
            mistakes[f"without {operand} (as if it were {neutral})"] = {**inputs, operand: plain}
        if not declared.index:
            mistakes[f"with {operand} negated"] = {**inputs, operand: -value}
    for tensor in (task.gemm.b, *task.operands):
        exchanged = _exchanged(task, tensor, inputs)
        if exchanged is not None:
            words = "acc" if tensor == task.gemm.b else tensor
            mistakes[f"with the even and odd columns of {words} exchanged"] = {**inputs, tensor: exchanged}
    variants = {}
    for words, changed in mistakes.items():
        try:
            variants[words] = oracle(task, changed)[name]
        except TaskError:  # the reference need not stand such inputs
            continue
    before = inputs.get(name)
    if name in task.accumulates and isinstance(before, torch.Tensor):
        variants[f"with {name} added twice"] = oracle(task, inputs)[name] + before
    bare = from_kernel(task, name, case.acc)
    if bare.shape == task.outputs[name].size(case.workload.sizes):
        variants["the bare accumulator"] = bare
    return variants


def _exchanged(task: Task, name: str, inputs: Inputs) -> torch.Tensor | None:
    """A tensor of paired columns with the two of each pair exchanged."""
    value, layout = inputs[name], task.tensors[name].layout
    if layout is None or not isinstance(value, torch.Tensor):
        return None
    dim = 0 if name == task.gemm.b and task.gemm.b_transposed else value.ndim - 1
    if layout == "halves":
        return torch.cat(value.chunk(2, dim)[::-1], dim)
    return value.unflatten(dim, (-1, 2)).flip(dim + 1).flatten(dim, dim + 1)
