"""A task of several stages: which products and formulas follow one another is fixed, their epilogues are asked for.

The stages and the shapes of what passes between them are declared beside one plain-PyTorch reference of the whole.
A candidate is one file with an epilogue for each product, named like its stage.  To data, oracle and baselines a
program is a `Task` like any other; each of its products is one of its own in shapes and operands (`parts`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from ..primitives import Graph, read
from ..primitives.types import Operand
from ..templates.program import FORMULAS, Program, Stage
from .declaration import check_workloads
from .errors import TaskError
from .source import source_of
from .task import Product, Task
from .tensor import Tensor, evaluate

LEVEL = 4


@dataclass(frozen=True)
class Step:
    """One declared stage: a product, a formula of the finishing vocabulary, or a row kernel."""

    kind: Literal["gemm", "finish", "rows"]
    name: str
    reads: tuple[str, ...]
    """For a product: its epilogue's operands."""
    writes: tuple[str, ...]
    gemm: Product | None = None
    formula: str = ""
    constants: tuple[tuple[str, float | str], ...] = ()

    def __str__(self) -> str:
        """Such as "y = down(o @ w_down.T; h)" for a product, "rstd = rsqrt_mean(sumsq)" for a formula."""
        called = f"{self.name}({self.gemm}" if self.gemm else f"{self.formula}("
        more = ", ".join(self.reads)
        constants = "".join(f", {k}={v}" for k, v in self.constants)
        return f"{', '.join(self.writes)} = {called}{'; ' * bool(self.gemm and more)}{more}{constants})"


def product(name: str, gemm: str, *, reads: Sequence[str] = (), writes: Sequence[str]) -> Step:
    """A product with an epilogue to be written. reads: the epilogue's operands; gemm: such as "x @ w.T"."""
    return Step("gemm", name, tuple(reads), tuple(writes), gemm=Product.parse(gemm))


def finish(name: str, formula: str, *, reads: Sequence[str], writes: str, **constants: float | str) -> Step:
    """A formula on vectors, by its name in FINISH; constants may be expressions of the symbols ("D")."""
    return _formula("finish", name, formula, reads, (writes,), constants)


def rows(name: str, kernel: str, *, reads: Sequence[str], writes: Sequence[str], **constants: float | str) -> Step:
    """A trusted row-wise kernel, by its name in `templates.rows`; constants as for `finish`."""
    return _formula("rows", name, kernel, reads, writes, constants)


def _formula(
    kind: Literal["finish", "rows"],
    name: str,
    formula: str,
    reads: Sequence[str],
    writes: Sequence[str],
    constants: dict[str, float | str],
) -> Step:
    known = FORMULAS[kind]
    if formula not in known:
        raise TaskError(f"the stage {name!r} uses {formula!r}; known are {', '.join(known)}")
    return Step(kind, name, tuple(reads), tuple(writes), formula=formula, constants=tuple(sorted(constants.items())))


@dataclass(frozen=True)
class ProgramTask(Task):
    """A fusion problem of several stages. Made by `program_task`; see there for its parts.

    `gemm` is the first product's: it names the rows of a workload, and nothing else.
    """

    steps: tuple[Step, ...] = ()
    between: Mapping[str, Tensor] = field(default_factory=dict)

    def _asked(self) -> dict:
        between = {k: repr(v) for k, v in self.between.items()}
        return {**super()._asked(), "between": between, "steps": [repr(s) for s in self.steps]}

    @property
    def everything(self) -> dict[str, Tensor]:
        """Inputs, what passes between stages, outputs."""
        return {**self.tensors, **self.between, **self.outputs}

    @property
    def leading(self) -> str:
        return next(n for n, t in self.tensors.items() if t.dtype is None and len(t.dimensions) == 2)

    @property
    def operands(self) -> dict[str, Operand]:  # type: ignore[override]
        raise TaskError(f"program {self.name!r} has operands by stage; see its parts")

    @cached_property
    def parts(self) -> dict[str, Task]:  # type: ignore[override]
        """Each product as a task in shapes and operands, by stage; these have no reference of their own."""
        return {s.name: self._part(s) for s in self.steps if s.gemm is not None}

    def _part(self, step: Step) -> Task:
        assert step.gemm is not None

        def nothing(**_: object) -> dict:
            raise TaskError(f"the stage {step.name!r} of {self.name!r} has no reference; run the program's")

        return Task(
            name=f"{self.name}_{step.name}",
            level=self.level,
            gemm=step.gemm,
            tensors={n: self.everything[n] for n in dict.fromkeys((step.gemm.a, step.gemm.b, *step.reads))},
            outputs={n: self.everything[n] for n in step.writes},
            reference=nothing,
            source="",
            path=self.path,
        )

    def flops(self, sizes: dict[str, int]) -> int:
        """Floating-point operations of all products."""
        return sum(part.flops(sizes) for part in self.parts.values())

    def read(self, source: str) -> dict[str, Graph]:
        """A candidate's epilogues by stage. Raises ReadError for what the language or a stage does not have, TaskError
        where an epilogue returns other names than its stage writes."""
        graphs = {}
        for name, part in self.parts.items():
            graph = read(source, list(part.operands.values()), name=name)
            if set(graph.outputs) != set(part.outputs):
                raise TaskError(
                    f"the epilogue {name} returns {', '.join(graph.outputs)}; return {', '.join(part.outputs)}"
                )
            graphs[name] = graph
        return graphs

    def program(self, epilogues: Mapping[str, Graph], sizes: dict[str, int]) -> Program:
        """The stages with their epilogues and with constants for these sizes, ready to run or to interpret.

        epilogues: by stage; a stage that has none here can be run and not interpreted.
        """
        return Program(
            inputs=tuple(self.tensors),
            outputs=tuple(self.outputs),
            stages=tuple(self._stage(step, epilogues.get(step.name), sizes) for step in self.steps),
        )

    def _stage(self, step: Step, epilogue: Graph | None, sizes: dict[str, int]) -> Stage:
        if step.gemm is None:
            return Stage(
                kind=step.kind,
                name=step.name,
                formula=step.formula,
                reads=step.reads,
                writes=step.writes,
                constants={k: evaluate(v, sizes) for k, v in step.constants},
            )
        return Stage(
            kind="gemm",
            name=step.name,
            reads=(step.gemm.a, step.gemm.b, *step.reads),
            writes=step.writes,
            a_transposed=step.gemm.a_transposed,
            b_transposed=step.gemm.b_transposed,
            halves=self.everything[step.gemm.b].layout == "halves",
            epilogue=epilogue,
        )


def program_task(
    *,
    stages: Sequence[Step],
    out: dict[str, Tensor],
    between: dict[str, Tensor] | None = None,
    workloads: Sequence[dict[str, int]] = (),
    **tensors: Tensor,
) -> Callable[[Callable], ProgramTask]:
    """Declare a program on a plain-PyTorch reference of the whole.

    stages: `product`s, `finish`es and `rows` in order; what one writes, later ones may read.
    between: what passes from stage to stage and is no output.
    out, tensors, workloads: the reference's outputs and parameters, and the sizes to time, as for `task`.  Paired
        columns between stages alternate, so weights with pairs are declared with layout="pairs", and only a product's
        second operand may lie as halves.

    A task called like another with `_bwd` behind it is that one's gradient: it takes d and the name of an output for
    that output's gradient, inputs and outputs of the other by their names, and gives d and the name of an input.

    Raises TaskError, in one sentence, for a declaration that does not fit together.
    """

    def declare(reference: Callable) -> ProgramTask:
        title = reference.__name__
        parameters = list(inspect.signature(reference).parameters)
        if set(parameters) != set(tensors):
            odd = ", ".join(sorted(set(parameters) ^ set(tensors)))
            raise TaskError(
                f"program {title!r}: the reference's parameters and the declared tensors differ in {odd}; declare each "
                "parameter once as name=Tensor(...)"
            )
        first = next((s.gemm for s in stages if s.gemm is not None), None)
        if first is None:
            raise TaskError(f"program {title!r} has no product; declare product(...) among its stages")
        made = ProgramTask(
            name=title,
            level=LEVEL,
            gemm=first,
            steps=tuple(stages),
            tensors={p: tensors[p] for p in parameters},
            between=dict(between or {}),
            outputs=dict(out),
            reference=reference,
            source=source_of(reference),
            doc=inspect.getdoc(reference) or "",
            declared_workloads=tuple(dict(w) for w in workloads),
            path=Path(inspect.getsourcefile(reference) or ""),
        )
        _check(made)
        return made

    return declare


def _check(task: ProgramTask) -> None:
    known = set(task.tensors)
    for step in task.steps:
        operands = () if step.gemm is None else (step.gemm.a, step.gemm.b)
        for name in (*operands, *step.reads):
            if name not in known:
                raise TaskError(
                    f"program {task.name!r}: the stage {step.name} reads {name!r}, which is no input and no earlier "
                    f"stage writes; known at that point: {', '.join(sorted(known))}"
                )
        for name in step.writes:
            if name in known or name not in task.everything:
                why = "exists already" if name in known else "is declared neither in between= nor in out="
                raise TaskError(f"program {task.name!r}: the stage {step.name} writes {name!r}, which {why}")
        known.update(step.writes)
    unwritten = sorted(set(task.outputs) - known)
    if unwritten:
        raise TaskError(f"program {task.name!r}: no stage writes the output {unwritten[0]!r}; add it to a stage")
    for part in task.parts.values():
        _ = part.operands
        for name, tensor in part.outputs.items():
            part.grid(name, tensor)
    check_workloads(task)
