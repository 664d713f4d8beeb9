"""Programs: several stages as data, each a fused product, a finishing formula, or a row-wise kernel.

A stage names the tensors that it reads and writes; a program is a list of stages whose names fit together.
`interpret` gives a program's torch meaning in any dtype, stage by stage, so that a program can be checked
without a GPU; `run` executes it with whatever runs a stage (a compiled kernel, a trusted row kernel).
A task with one product is the program of one stage.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, model_validator

from ..primitives import Graph, evaluate
from . import rows

Kind = Literal["gemm", "finish", "rows"]
Tensors = Mapping[str, Any]

FINISH: dict[str, Callable[..., torch.Tensor]] = {
    "rsqrt_mean": lambda total, eps, *, d, out=None: torch.rsqrt(total / d + eps, out=out),
    "mean": lambda total, *, d, out=None: torch.div(total, d, out=out),
    "lse_minus": lambda lse, picked, *, out=None: torch.sub(lse, picked, out=out),
}
"""The small vocabulary between products, on vectors of one element a row: an RMSNorm's statistic from its sum of
squares, a sum over a width d, a cross-entropy from its two parts."""
FORMULAS = {"finish": tuple(FINISH), "rows": rows.NAMES}
_WORDS = {
    "rsqrt_mean": "rsqrt_mean(total, eps, d) = rsqrt(total / d + eps), a row",
    "mean": "mean(total, d) = total / d, a row",
    "lse_minus": "lse_minus(lse, picked) = lse - picked, a row",
}


def words(formula: str) -> str:
    """What a formula or a row kernel computes, in words."""
    if formula in _WORDS:
        return _WORDS[formula]
    kernel = rows.row_kernel(formula).meaning
    return f"{formula}: {(inspect.getdoc(inspect.getmodule(kernel)) or '').strip()}"


class Stage(BaseModel):
    """One step of a program."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    name: str
    reads: tuple[str, ...]
    """For "gemm": the product's two operands, then the epilogue's operands. For the others: arguments in order."""
    writes: tuple[str, ...]
    """For "gemm": the epilogue's outputs."""
    a_transposed: bool = False
    b_transposed: bool = True
    halves: bool = False
    """Whether the second operand holds the paired columns as halves."""
    epilogue: Graph | None = None
    """For "gemm": the epilogue; None where a candidate is to supply it."""
    formula: str = ""
    """For "finish": a name of FINISH. For "rows": a name of rows.NAMES."""
    constants: dict[str, float] = {}

    @model_validator(mode="after")
    def _fits(self) -> Stage:
        if self.kind == "gemm":
            if len(self.reads) < 2:
                raise ValueError(
                    f"the stage {self.name!r} is a product and reads {list(self.reads)}; name two operands"
                )
            if self.epilogue is not None:
                missing = set(self.epilogue.outputs) ^ set(self.writes)
                if missing:
                    raise ValueError(
                        f"the stage {self.name!r} writes {list(self.writes)} and its epilogue returns "
                        f"{sorted(self.epilogue.outputs)}; make them the same"
                    )
        elif self.formula not in (known := FORMULAS[self.kind]):
            raise ValueError(f"the stage {self.name!r} uses the formula {self.formula!r}; known are {', '.join(known)}")
        return self


class Program(BaseModel):
    """Stages in order."""

    model_config = ConfigDict(frozen=True)

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]

    @model_validator(mode="after")
    def _names_flow(self) -> Program:
        known = set(self.inputs)
        for stage in self.stages:
            for name in stage.reads:
                if name not in known:
                    raise ValueError(
                        f"the stage {stage.name!r} reads {name!r}, which is no input and no earlier stage writes; "
                        f"known at that point: {', '.join(sorted(known))}"
                    )
            for name in stage.writes:
                if name in known:
                    raise ValueError(
                        f"the stage {stage.name!r} writes {name!r}, which exists already; use another name"
                    )
                known.add(name)
        for name in self.outputs:
            if name not in known:
                raise ValueError(f"the output {name!r} is written by no stage; known: {', '.join(sorted(known))}")
        return self

    @staticmethod
    def single(
        name: str,
        inputs: tuple[str, ...],
        a: str,
        b: str,
        graph: Graph,
        *,
        a_transposed: bool,
        b_transposed: bool,
        halves: bool,
    ) -> Program:
        """The program of one product with one epilogue."""
        operands = tuple(o.name for o in graph.used_operands)
        outputs = tuple(graph.outputs)
        stage = Stage(
            kind="gemm",
            name=name,
            reads=(a, b, *operands),
            writes=outputs,
            a_transposed=a_transposed,
            b_transposed=b_transposed,
            halves=halves,
            epilogue=graph,
        )
        return Program(inputs=inputs, outputs=outputs, stages=(stage,))


Executor = Callable[[Stage, dict[str, Any]], dict[str, Any]]
"""Runs a stage on its tensors by name and returns what it writes."""


def run(program: Program, inputs: Tensors, execute: Executor) -> dict[str, Any]:
    """Execute the stages in order; returns the outputs. Tensors no later stage reads are dropped on the way."""
    missing = [n for n in program.inputs if n not in inputs]
    if missing:
        raise ValueError(f"the input {missing[0]!r} is missing; pass {', '.join(program.inputs)}")
    values = {name: inputs[name] for name in program.inputs}
    for position, stage in enumerate(program.stages):
        values.update(execute(stage, {name: values[name] for name in stage.reads}))
        wanted = set(program.outputs).union(*(s.reads for s in program.stages[position + 1 :]))
        values = {name: value for name, value in values.items() if name in wanted}
    return {name: values[name] for name in program.outputs}


def interpret(program: Program, inputs: Tensors) -> dict[str, Any]:
    """The program's torch meaning, in the inputs' dtype."""

    def execute(stage: Stage, values: dict[str, Any]) -> dict[str, Any]:
        if stage.kind == "gemm":
            return _product(stage, values)
        arguments = [values[name] for name in stage.reads]
        meaning = FINISH[stage.formula] if stage.kind == "finish" else rows.row_kernel(stage.formula).meaning
        answer = meaning(*arguments, **stage.constants)
        return dict(zip(stage.writes, answer if isinstance(answer, tuple) else (answer,), strict=True))

    return run(program, inputs, execute)


def launch(stage: Stage, reads: Sequence[Any], writes: Sequence[torch.Tensor]) -> None:
    """Run a stage that is no product on the current stream, into the tensors that it writes."""
    if stage.kind == "finish":
        FINISH[stage.formula](*reads, **stage.constants, out=writes[0])
    else:
        rows.row_kernel(stage.formula).launch(*reads, *writes, **stage.constants)


def _product(stage: Stage, values: dict[str, Any]) -> dict[str, Any]:
    if stage.epilogue is None:
        raise ValueError(f"the stage {stage.name!r} has no epilogue yet; a candidate supplies it")
    a, b = values[stage.reads[0]], values[stage.reads[1]]
    acc = (a.T if stage.a_transposed else a) @ (b.T if stage.b_transposed else b)
    if stage.halves:
        acc = torch.stack(acc.chunk(2, -1), -1).flatten(-2)
    return evaluate(stage.epilogue, acc, {name: values[name] for name in stage.reads[2:]})
