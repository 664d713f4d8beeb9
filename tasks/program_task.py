"""A task of several stages: which products and formulas follow one another is fixed, their epilogues are asked for.

The stages and the shapes of what passes between them are declared beside one plain-PyTorch reference of the whole.
A candidate is one file with an epilogue for each product, named like its stage.  Each product is a `Task` of its own
in shapes and operands (`stage_task`), and the whole is one in data and oracle (`whole`).
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ..primitives import Graph, read
from ..templates.program import Program, Stage
from .errors import TaskError
from .source import source_of
from .task import Product, Task
from .tensor import Tensor, evaluate

LEVEL = 4


@dataclass(frozen=True)
class Step:
    """One declared stage: a product, or a formula of the finishing vocabulary."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    gemm: Product | None = None
    formula: str = ""
    constants: tuple[tuple[str, float | str], ...] = ()


def product(name: str, gemm: str, *, reads: Sequence[str] = (), writes: Sequence[str]) -> Step:
    """A product with an epilogue to be written. reads: the epilogue's operands; gemm: such as "x @ w.T"."""
    return Step(name, tuple(reads), tuple(writes), gemm=Product.parse(gemm))


def finish(name: str, formula: str, *, reads: Sequence[str], writes: str, **constants: float | str) -> Step:
    """A formula on vectors, by its name in templates/program.py; constants may be expressions of the symbols ("D")."""
    return Step(name, tuple(reads), (writes,), formula=formula, constants=tuple(sorted(constants.items())))


@dataclass(frozen=True)
class ProgramTask:
    """A fusion problem of several stages. Made by `program_task`; see there for its parts."""

    name: str
    steps: tuple[Step, ...]
    tensors: dict[str, Tensor]
    between: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: Callable = field(repr=False)
    source: str = field(repr=False)
    doc: str = ""
    path: Path | None = None
    level: int = LEVEL

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that changes what is asked for."""
        spec = {
            "whole": self.whole.digest,
            "between": {k: repr(v) for k, v in self.between.items()},
            "steps": [repr(s) for s in self.steps],
        }
        return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()

    @property
    def products(self) -> tuple[Step, ...]:
        """The stages that need an epilogue."""
        return tuple(s for s in self.steps if s.gemm is not None)

    @cached_property
    def whole(self) -> Task:
        """For data, oracle and the unfused path: a task with all inputs, all outputs and the first product's shapes.

        Its operands have no meaning, since most of the inputs belong to later stages.
        """
        return replace(
            self.stage_task(self.products[0].name),
            name=self.name,
            tensors=self.tensors,
            outputs=self.outputs,
            reference=self.reference,
            source=self.source,
            doc=self.doc,
            path=self.path,
        )

    def stage_task(self, name: str) -> Task:
        """A product's stage in shapes and operands; it has no reference of its own. Raises TaskError for the name."""
        step = next((s for s in self.products if s.name == name), None)
        if step is None or step.gemm is None:
            names = ", ".join(s.name for s in self.products)
            raise TaskError(f"program {self.name!r} has no product {name!r}; its products are {names}")
        known = {**self.tensors, **self.between, **self.outputs}

        def nothing(**_: object) -> dict:
            raise TaskError(f"the stage {name!r} of {self.name!r} has no reference; run the program's")

        return Task(
            name=f"{self.name}_{name}",
            level=self.level,
            gemm=step.gemm,
            tensors={n: known[n] for n in dict.fromkeys((step.gemm.a, step.gemm.b, *step.reads))},
            outputs={n: known[n] for n in step.writes},
            reference=nothing,
            source="",
        )

    def read(self, source: str) -> dict[str, Graph]:
        """A candidate's epilogues by stage. Raises ReadError for what the language or a stage does not have, TaskError
        where an epilogue returns other names than its stage writes."""
        graphs = {}
        for step in self.products:
            graph = read(source, list(self.stage_task(step.name).operands.values()), name=step.name)
            if set(graph.outputs) != set(step.writes):
                raise TaskError(
                    f"the epilogue {step.name} returns {', '.join(graph.outputs)}; return {', '.join(step.writes)}"
                )
            graphs[step.name] = graph
        return graphs

    def program(self, epilogues: Mapping[str, Graph], sizes: dict[str, int]) -> Program:
        """The stages with their epilogues and with constants for these sizes, ready to run or to interpret."""
        stages = []
        for step in self.steps:
            if step.gemm is None:
                constants = {k: evaluate(v, sizes) for k, v in step.constants}
                stages.append(
                    Stage(
                        kind="finish",
                        name=step.name,
                        formula=step.formula,
                        reads=step.reads,
                        writes=step.writes,
                        constants=constants,
                    )
                )
                continue
            task = self.stage_task(step.name)
            stages.append(
                Stage(
                    kind="gemm",
                    name=step.name,
                    reads=(step.gemm.a, step.gemm.b, *step.reads),
                    writes=step.writes,
                    a_transposed=step.gemm.a_transposed,
                    b_transposed=step.gemm.b_transposed,
                    halves=task.tensors[step.gemm.b].layout == "halves",
                    epilogue=epilogues[step.name],
                )
            )
        return Program(inputs=tuple(self.tensors), outputs=tuple(self.outputs), stages=tuple(stages))


def program_task(
    *, stages: Sequence[Step], out: dict[str, Tensor], between: dict[str, Tensor] | None = None, **tensors: Tensor
) -> Callable[[Callable], ProgramTask]:
    """Declare a program on a plain-PyTorch reference of the whole.

    stages: `product`s and `finish`es in order; what one writes, later ones may read.
    between: what passes from stage to stage and is no output.
    out, tensors: the reference's outputs and parameters, as for `task`. Paired columns between stages alternate, so
        weights with pairs are declared with layout="pairs", and only a product's second operand may lie as halves.

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
        made = ProgramTask(
            name=title,
            steps=tuple(stages),
            tensors={p: tensors[p] for p in parameters},
            between=dict(between or {}),
            outputs=dict(out),
            reference=reference,
            source=source_of(reference),
            doc=inspect.getdoc(reference) or "",
            path=Path(inspect.getsourcefile(reference) or ""),
        )
        _check(made)
        return made

    return declare


def _check(task: ProgramTask) -> None:
    if not task.products:
        raise TaskError(f"program {task.name!r} has no product; declare product(...) among its stages")
    known = set(task.tensors)
    declared = {**task.tensors, **task.between, **task.outputs}
    for step in task.steps:
        operands = () if step.gemm is None else (step.gemm.a, step.gemm.b)
        for name in (*operands, *step.reads):
            if name not in known:
                raise TaskError(
                    f"program {task.name!r}: the stage {step.name} reads {name!r}, which is no input and no earlier "
                    f"stage writes; known at that point: {', '.join(sorted(known))}"
                )
        for name in step.writes:
            if name in known or name not in declared:
                why = "exists already" if name in known else "is declared neither in between= nor in out="
                raise TaskError(f"program {task.name!r}: the stage {step.name} writes {name!r}, which {why}")
        known.update(step.writes)
    unwritten = sorted(set(task.outputs) - known)
    if unwritten:
        raise TaskError(f"program {task.name!r}: no stage writes the output {unwritten[0]!r}; add it to a stage")
    for step in task.products:
        stage = task.stage_task(step.name)
        _ = stage.operands
        for name, tensor in stage.outputs.items():
            stage.grid(name, tensor)
