"""The stages without a GPU for a program: each of its products as a task of its own, and the whole in float64.

A finding names the stage of the program that it is about.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from ..primitives.graph import Graph, GraphError
from ..tasks.inputs import Inputs, draw
from ..tasks.oracle import cast, oracle
from ..tasks.program_task import ProgramTask
from ..tasks.workload import Workload
from ..templates.compile import Compiled, Compiler
from ..templates.program import interpret
from ..templates.schedule import Schedule
from .compile import compile_stage
from .far import InFloat32, all_near, down, far_down, far_workloads
from .interpret import ACCEPT, difference
from .patterns import diagnose
from .read import read_stage
from .verdict import Finding, StageResult, Tier

_WORKLOADS = 3  # as for a task of one product
Progress = Callable[[str, str], None]


def read_program(task: ProgramTask, source: str, tier: Tier) -> tuple[StageResult, dict[str, Graph]]:
    """Read an epilogue for each product; no graphs where the stage fails."""
    started = time.perf_counter()
    if tier != "closed":
        finding = Finding(
            code="closed-only",
            message=f"{task.name} is a program, and its epilogues are taken in the closed tier only.",
            remedy="Write them with codasmith.primitives.",
        )
        return _result("read", started, finding), {}
    graphs, notes, data = {}, [], {}
    for stage, part in task.parts.items():
        result, graph = read_stage(part, source, tier, name=stage)
        if graph is None:
            return _result("read", started, _about(stage, result.finding)), {}
        graphs[stage], data[stage] = graph, result.data
        notes.append(f"{stage}: {len(graph.nodes)}")
    return _result("read", started, None, f"operations by stage: {', '.join(notes)}", {"stages": data}), graphs


def interpret_program(task: ProgramTask, graphs: dict[str, Graph]) -> StageResult:
    """Compute the whole program in float64 on small shapes, and hold it against the reference.

    Data of a passed stage: max_relative, the largest difference of each output as a share of its scale.
    Raises TaskError if the reference itself fails: that is no fault of the candidate.
    """
    started = time.perf_counter()
    largest = dict.fromkeys(task.outputs, 0.0)
    finding = None
    for words, workload, inputs, asked in _cases(task, graphs):
        finding = _compare(task, asked, workload, inputs, words, largest)
        if finding:
            break
    for workload in () if finding else far_workloads(task, graphs.values()):
        single = InFloat32(task, workload, oracle(task, draw(task, workload)))
        for words, asked in _far(task, graphs, workload):
            answer = interpret(task.program(asked, workload.sizes), single.inputs)
            finding = finding or single.finding(answer, words)
    note = f"agrees with the reference in float64 on {_WORKLOADS} workloads"
    return _result("interpret", started, finding, note, {"max_relative": largest})


def compile_program(
    task: ProgramTask,
    graphs: dict[str, Graph],
    *,
    storage: str,
    compiler: Compiler,
    schedules: Sequence[Schedule],
    progress: Progress | None = None,
) -> tuple[StageResult, dict[str, list[Compiled]]]:
    """Compile every stage under all schedules at once; passes if each stage has one that compiles.

    Data: stages, by name what `compile_stage` measured.
    """
    started = time.perf_counter()

    def one(stage: str) -> tuple[StageResult, list[Compiled]]:
        def say(kind: str, line: str) -> None:
            if progress:
                progress(kind, f"{stage} {line}")

        return compile_stage(
            task.parts[stage],
            graphs[stage],
            "",
            tier="closed",
            storage=storage,
            compiler=compiler,
            schedules=schedules,
            progress=say,
        )

    with ThreadPoolExecutor(len(graphs)) as pool:
        done = dict(zip(graphs, pool.map(one, graphs), strict=True))
    data = {"stages": {stage: result.data for stage, (result, _) in done.items()}}
    finding = next((_about(stage, r.finding) for stage, (r, _) in done.items() if r.finding), None)
    note = "; ".join(f"{stage}: {result.note}" for stage, (result, _) in done.items())
    return _result("compile", started, finding, note, data), {stage: kept for stage, (_, kept) in done.items()}


def _cases(task: ProgramTask, graphs: dict[str, Graph]) -> Iterator[tuple[str, Workload, Inputs, dict[str, Graph]]]:
    """The workloads, the first with one input exchanged after the other, and far ones where they can matter, each with
    the graphs to ask."""
    workloads = task.correctness_workloads()[:_WORKLOADS]
    for workload in workloads:
        yield "", workload, cast(draw(task, workload), torch.float64), graphs
    first = cast(draw(task, workloads[0]), torch.float64)
    other = cast(draw(task, workloads[0].model_copy(update={"seed": workloads[0].seed + 1000})), torch.float64)
    for name in task.tensors:
        yield f" when {name} changes", workloads[0], {**first, name: other[name]}, graphs
    for workload in far_workloads(task, graphs.values()):
        inputs = cast(draw(task, workload), torch.float64)
        for words, asked in _far(task, graphs, workload):
            yield words, workload, inputs, asked


def _far(task: ProgramTask, graphs: dict[str, Graph], workload: Workload) -> Iterator[tuple[str, dict[str, Graph]]]:
    """The epilogues to ask on a far workload, as they are and as rows far down would ask them, with words for it."""
    yield "", graphs
    for moved in _far_down(task, graphs) if all_near(task, workload) else ():
        yield " when its row changes", {**graphs, **moved}


def _far_down(task: ProgramTask, graphs: dict[str, Graph]) -> list[dict[str, Graph]]:
    """The epilogues that ask for their row, below it by numbers drawn anew; of the products whose rows are the
    program's."""
    own = {stage: graph for stage, graph in graphs.items() if task.parts[stage].m.symbol == task.m.symbol}
    numbers = down()
    moved = {stage: found for stage, graph in own.items() if (found := far_down(task, graph, numbers))}
    return [dict(zip(moved, row, strict=True)) for row in zip(*moved.values(), strict=True)]


def _compare(
    task: ProgramTask,
    graphs: dict[str, Graph],
    workload: Workload,
    inputs: Inputs,
    words: str,
    largest: dict[str, float],
) -> Finding | None:
    expected = oracle(task, inputs)
    try:
        answer = interpret(task.program(graphs, workload.sizes), inputs)
    except GraphError as error:
        return Finding(code=error.code, message=error.message, remedy=error.remedy)
    right: list[str] = []
    for step in task.steps:  # in their order, so that the first wrong output is nearest to the mistake
        for name in step.writes:
            if name not in expected:
                continue
            found = difference(answer[name], expected[name])
            largest[name] = max(largest[name], found)
            if found > ACCEPT:
                return _wrong(task, graphs, step.name, name, answer[name], expected[name], words, right, workload)
            right.append(name)
    return None


def _wrong(
    task: ProgramTask,
    graphs: dict[str, Graph],
    stage: str,
    name: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    words: str,
    right: list[str],
    workload: Workload,
) -> Finding:
    scale = float(torch.where(torch.isfinite(expected), expected.abs(), 0.0).amax())
    found = diagnose(name, actual, expected, task, tolerance=ACCEPT * scale)
    worst = found["worst"]
    place = ", ".join(map(str, worst["index"]))
    pattern = found["pattern"] or f"in {found['wrong']} of {found['elements']} elements"
    suspects = _suspects(task, stage, right)
    graph = graphs.get(stage)
    return Finding(
        code="wrong-values",
        message=f"The output {name}, which the stage {stage} writes, differs from the reference{words}: {pattern}; "
        f"{name}[{place}] is {worst['value']:.6g} and should be {worst['expected']:.6g}.",
        remedy=f"Look at {' and '.join(suspects)}"
        + (f"; {', '.join(right)} {'are' if len(right) > 1 else 'is'} right." if right else "."),
        line=graph.nodes[graph.outputs[name]].line if graph and len(suspects) == 1 else None,
        output=name,
        details={**found, "stage": stage, "workload": workload.label, "family": workload.family},
    )


def _suspects(task: ProgramTask, stage: str, right: list[str]) -> list[str]:
    """The products that what this stage reads comes from, without those whose results were all seen to be right."""
    writer = {name: step for step in task.steps for name in step.writes}
    found: dict[str, None] = {}

    def walk(name: str) -> None:
        step = writer[name]
        reads = (*((step.gemm.a, step.gemm.b) if step.gemm else ()), *step.reads)
        for read in reads:
            if read in writer and read not in right:
                walk(read)
        if step.gemm:
            found[step.name] = None

    walk(next(s.writes[0] for s in task.steps if s.name == stage))
    return list(found)


def _about(stage: str, finding: Finding | None) -> Finding:
    assert finding is not None
    return finding.model_copy(
        update={"message": f"In {stage}: {finding.message}", "details": {**finding.details, "stage": stage}}
    )


def _result(
    stage: str, started: float, finding: Finding | None, note: str = "", data: dict | None = None
) -> StageResult:
    return StageResult.model_validate(
        {
            "stage": stage,
            "outcome": "failed" if finding else "passed",
            "seconds": time.perf_counter() - started,
            "finding": finding,
            "note": "" if finding else note,
            "data": data or {} if not finding or stage == "compile" else {},
        }
    )
