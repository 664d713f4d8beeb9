"""Whether a task can tell right from wrong: what holds for every task of the public set and of each generated one.

A task is sound if its outputs vary and stay finite in every input family, each operand matters, an honest float32
kernel passes the gate's numerics rule, and neither trivial answers nor the cheapest mistakes do.  The rule is the
gate's own (`gate.tolerance.judge`); all of it runs on small sizes on a CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode

from ..gate.tolerance import judge
from ..primitives import Graph, GraphError, evaluate
from ..primitives.graph import ACC, CONST, EVEN, ODD, OPERAND, PACK, REDUCTIONS, Builder
from ..tasks import FAMILIES, Task, Workload, accumulator, cast, draw, from_kernel, oracle, to_kernel, unfused
from ..tasks.inputs import Inputs
from ..tasks.program_task import ProgramTask
from ..templates.program import Program, Stage, interpret, run

Outputs = dict[str, torch.Tensor]
Epilogues = Graph | dict[str, Graph]
"""Of a task of one product, or by stage of a program."""

_COMMUTE = {"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or"}
_TRUTHS = {"lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or"}


@dataclass(frozen=True)
class Case:
    """One small workload with the answers that a kernel is compared with."""

    task: Task
    workload: Workload
    inputs: Inputs
    exact: Outputs
    plain: Outputs

    @staticmethod
    def of(task: Task, workload: Workload) -> Case:
        inputs = draw(task, workload)
        return Case(task, workload, inputs, oracle(task, inputs), unfused(task, inputs))

    def accepts(self, name: str, answer: torch.Tensor) -> bool:
        """Whether the gate's numerics rule would take this for the output."""
        dtype = self.task.outputs[name].torch_dtype(self.workload.storage)
        return judge(answer.to(dtype), self.exact[name], self.plain[name], dtype).ok

    def accepts_all(self, answers: Outputs) -> bool:
        return all(self.accepts(name, value) for name, value in answers.items())


def problems(task: Task, graph: Epilogues) -> list[str]:
    """Why the task cannot be used, a phrase each; empty for a sound one. graph: what answers it."""
    with torch.no_grad():
        cases = _cases(task)
        found = [*_ranges(cases), *_honest(cases, graph)]
        return found or [*_insensitive(cases, graph), *_trivial(cases[0]), *_mistakes(cases, graph)]


def kernel_answer(task: Task, graph: Epilogues, inputs: Inputs) -> Outputs:
    """What an honest kernel stores: float32 from a float32 accumulator, with the error of the GPU's tanh unit.

    The caller rounds to the outputs' dtypes.
    """
    if isinstance(graph, dict):
        return _program_answer(task, graph, inputs)
    acc = accumulator(task, cast(inputs, torch.float64)).float()
    wide = cast(inputs, torch.float32)
    operands = {
        name: to_kernel(task, name, value) if isinstance(value := wide[name], torch.Tensor) else value
        for name in task.operands
    }
    with _TanhUnit():
        stored = evaluate(graph, acc, operands)
    answers = {k: from_kernel(task, k, v) for k, v in stored.items()}
    return {k: torch.as_tensor(wide[k]) + v if k in task.accumulates else v for k, v in answers.items()}


def _program_answer(task: Task, graphs: dict[str, Graph], inputs: Inputs) -> Outputs:
    """The same for a program; what passes between stages is rounded to its dtype on the way."""
    assert isinstance(task, ProgramTask)
    storage = "fp16" if torch.as_tensor(inputs[task.leading]).dtype == torch.float16 else "bf16"
    sizes = {
        d.symbol: extent // d.coefficient
        for name, tensor in task.tensors.items()
        if isinstance(value := inputs[name], torch.Tensor)
        for d, extent in zip(tensor.dimensions, value.shape, strict=True)
        if d.symbol
    }

    def execute(stage: Stage, values: dict) -> dict:
        alone = Program(inputs=tuple(dict.fromkeys(stage.reads)), outputs=stage.writes, stages=(stage,))
        stored = interpret(alone, values)
        return {k: v.to(task.everything[k].torch_dtype(storage)).float() for k, v in stored.items()}

    with _TanhUnit():
        return run(task.program(graphs, sizes), cast(inputs, torch.float32), execute)


def signature(graph: Graph) -> str:
    """The shape of an expression: the same for two that differ in names, constants and the order of a sum only.

    Coarser than the graph's digest, so that a generated task is no public one in disguise.
    """
    graph = graph.canonical()
    kinds = {o.name: f"{o.kind}{o.cols}" for o in graph.operands}
    words: list[str] = []
    for node in graph.nodes:
        args = [words[a] for a in node.args]
        if node.op in _COMMUTE:
            args.sort()
        label = kinds[node.name] if node.op == OPERAND else node.op
        words.append(hashlib.sha256(f"{label}({','.join(args)})".encode()).hexdigest())
    return hashlib.sha256(",".join(sorted(words[i] for i in graph.outputs.values())).encode()).hexdigest()


def mutants(graph: Epilogues) -> Iterator[tuple[str, Epilogues]]:
    """The cheapest mistakes: each operation left out, one at a time, where the rest still makes sense."""
    if isinstance(graph, dict):
        for stage, one in graph.items():
            yield from ((f"{what} in {stage}", {**graph, stage: wrong}) for what, wrong in _mutants(one))
    else:
        yield from _mutants(graph)


def _mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    graph = graph.canonical()
    for i, node in enumerate(graph.nodes):
        if node.op in (ACC, CONST, OPERAND, EVEN, ODD, PACK) or node.op in REDUCTIONS or node.op in _TRUTHS:
            continue
        for a in dict.fromkeys(node.args):
            if graph.nodes[a].op in _TRUTHS or graph.nodes[a].op == CONST:
                continue
            try:
                yield f"{node.op} left out", _without(graph, i, a)
            except GraphError:
                continue


def _without(graph: Graph, i: int, a: int) -> Graph:
    builder = Builder(graph.operands)
    moved: list[int] = []
    for j, node in enumerate(graph.nodes):
        if j == i:
            moved.append(moved[a])
        else:
            moved.append(builder.add(node.op, tuple(moved[k] for k in node.args), name=node.name, value=node.value))
    changed = builder.finish({name: moved[j] for name, j in graph.outputs.items()})
    for name, j in changed.outputs.items():
        if changed.types[j] != graph.types[graph.outputs[name]]:
            raise GraphError("another type")
    return changed


class _TanhUnit(TorchFunctionMode):
    """Within it, tanh and the GELU made of it err by up to 2^-11, as the GPU's approximate unit does."""

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(0)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.tanh:
            return result * (1 + self._error(result))
        if func is torch.nn.functional.gelu and (kwargs or {}).get("approximate") == "tanh":
            return result + 0.5 * args[0] * self._error(result)
        return result

    def _error(self, like: torch.Tensor) -> torch.Tensor:
        return (2 * torch.rand(like.shape, generator=self._generator, dtype=like.dtype) - 1) * 2.0**-11


def _cases(task: Task) -> list[Case]:
    """The smallest ordinary sizes in every family, and the two ends of float16."""
    first = task.correctness_workloads()[0]
    wanted: list[dict[str, str]] = [{"family": family} for family in FAMILIES]
    wanted += [{"family": "normal", "storage": "fp16"}, {"family": "large", "storage": "fp16"}]
    return [Case.of(task, first.model_copy(update=changes)) for changes in wanted]


def _ranges(cases: list[Case]) -> Iterator[str]:
    for case in cases:
        for name, value in case.plain.items():
            if not torch.isfinite(value).all():
                yield f"{name} is not finite in the family {case.workload.family} ({case.workload.storage})"
    for name, value in cases[0].exact.items():
        rms = float(value.square().mean().sqrt())
        if not rms > 1e-3:
            yield f"{name} is nearly zero"
        elif not value.std() > 0.02 * rms:
            yield f"{name} is nearly constant"
        elif _commonest(value) > 0.75:
            yield f"three of four elements of {name} are the same"


def _commonest(value: torch.Tensor) -> float:
    return float(value.flatten().unique(return_counts=True)[1].max()) / value.numel()


def _honest(cases: list[Case], graph: Epilogues) -> Iterator[str]:
    for case in cases:
        if not case.accepts_all(kernel_answer(case.task, graph, case.inputs)):
            yield f"an honest kernel fails in the family {case.workload.family} ({case.workload.storage})"


def _insensitive(cases: list[Case], graph: Epilogues) -> Iterator[str]:
    """An operand must matter in the ordinary family; a number such as a norm's epsilon, in some family."""
    for name, value in cases[0].inputs.items():
        number = not isinstance(value, torch.Tensor)
        if all(_same_without(case, graph, name) for case in (cases if number else cases[:1])):
            yield f"{name} does not matter"


def _same_without(case: Case, graph: Epilogues, name: str) -> bool:
    value = case.inputs[name]
    other = value.flip(0) if isinstance(value, torch.Tensor) else value * 0.5
    return case.accepts_all(kernel_answer(case.task, graph, {**case.inputs, name: other}))


def _trivial(case: Case) -> Iterator[str]:
    a, b = case.task.gemm.a, case.task.gemm.b
    bare = accumulator(case.task, cast(case.inputs, torch.float64)) if {a, b} <= set(case.inputs) else torch.empty(0)
    for name, value in case.exact.items():
        guesses = {
            "zeros": torch.zeros_like(value),
            "ones": torch.ones_like(value),
            "its mean": value.mean().expand_as(value),
            "its mean over rows": value.mean(0, keepdim=True).expand_as(value),
            "its own neighbour": value.roll(1, -1),
            "the bare product": bare,
        }
        guesses |= {f"a copy of {k}": v for k, v in case.inputs.items() if isinstance(v, torch.Tensor)}
        for what, guess in guesses.items():
            whole_product = what == "the bare product" and len(case.exact) > 1
            if guess.shape == value.shape and not whole_product and case.accepts(name, guess):
                yield f"{what} pass for {name}"


def _mistakes(cases: list[Case], graph: Epilogues) -> Iterator[str]:
    for what, wrong in mutants(graph):
        if all(case.accepts_all(kernel_answer(case.task, wrong, case.inputs)) for case in cases):
            yield f"the answer with {what} passes"
