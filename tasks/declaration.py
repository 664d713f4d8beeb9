"""Whether a task's declaration fits together: dimensions, symbols, workloads, layouts, in-place outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .domain import legal
from .errors import TaskError

if TYPE_CHECKING:
    from .task import Task


def check(task: Task) -> None:
    """Raise TaskError, in one sentence, for the first thing that does not fit."""
    _check_dtypes(task)
    depth = task.tensors[task.gemm.b].dimensions[1 if task.gemm.b_transposed else 0]
    if depth != task.k:
        raise TaskError(
            f"task {task.name!r}: the product {task.gemm} contracts {task.k} with {depth}; the inner dimensions must "
            "be the same"
        )
    if task.m == task.n:
        raise TaskError(
            f"task {task.name!r}: rows and columns of the product are both {task.m}; use two symbols, so that a vector "
            "of that length is not ambiguous"
        )
    if not task.outputs:
        raise TaskError(f"task {task.name!r} has no output; declare out={{'name': Tensor(...)}}")
    known = {s for t in task.tensors.values() for s in t.symbols}
    for name, tensor in task.outputs.items():
        unknown = sorted(tensor.symbols - known)
        if unknown:
            raise TaskError(
                f"task {task.name!r}: output {name} uses the symbol {unknown[0]!r}, which no input has; known symbols "
                f"are {', '.join(sorted(known))}"
            )
        task.grid(name, tensor)
        if tensor.is_index or not tensor.dimensions:
            raise TaskError(
                f"task {task.name!r}: output {name} is {tensor}; an output is a vector or a matrix of floating-point "
                "numbers"
            )
    _check_accumulation(task)
    _check_layouts(task)
    _check_fp8(task)
    _ = task.operands
    check_workloads(task)


def check_workloads(task: Task) -> None:
    """Raise TaskError for the first declared workload with other symbols than the task's, or that cannot run."""
    for sizes in task.declared_workloads:
        missing = sorted(set(task.symbols) - set(sizes))
        unknown = sorted(set(sizes) - set(task.symbols))
        if missing or unknown:
            raise TaskError(
                f"task {task.name!r}: the workload {sizes} "
                + (f"gives no size for {', '.join(missing)}" if missing else f"names the unknown {', '.join(unknown)}")
                + f"; give exactly the sizes of {', '.join(task.symbols)}"
            )
        reason = legal(task, sizes, task.storages[-1])
        if reason:
            raise TaskError(f"task {task.name!r}: the workload {sizes} cannot run: {reason}")


def _check_dtypes(task: Task) -> None:
    for name, tensor in {**task.tensors, **task.outputs}.items():
        if tensor.dtype == "f64":
            raise TaskError(
                f"task {task.name!r}: {name} is float64, which no kernel holds; use 'f32' or leave the dtype out"
            )
        if tensor.dtype == "fp8":
            raise TaskError(
                f"task {task.name!r}: {name} is declared fp8, which only operands of the product are, and these by the "
                "storage dtype; leave the dtype out and say which inputs take the scales, fp8={operand: scale}"
            )
        if name in (task.gemm.a, task.gemm.b) and tensor.dtype not in (None, "bf16", "fp16"):
            raise TaskError(
                f"task {task.name!r}: {name} is {tensor.dtype} and an operand of the product, which multiplies bf16 or "
                f"fp16; leave the dtype of {name} out"
            )
        if tensor.is_index and tensor.dimensions != (task.m,):
            raise TaskError(
                f"task {task.name!r}: {name} holds indices and has shape [{tensor.shape}]; indices come one a row, "
                f"[{task.m}]"
            )
    if task.tensors[task.gemm.a].dtype != task.tensors[task.gemm.b].dtype:
        raise TaskError(
            f"task {task.name!r}: {task.gemm.a} and {task.gemm.b} multiply and differ in dtype; give both the same"
        )


def _check_accumulation(task: Task) -> None:
    for name in task.accumulates:
        if name not in task.outputs:
            raise TaskError(
                f"task {task.name!r}: accumulates={name!r} is not an output; name one of {', '.join(task.outputs)}"
            )
        before, after = task.tensors.get(name), task.outputs[name]
        if before is None:
            raise TaskError(
                f"task {task.name!r}: {name} accumulates in place but is no parameter of the reference; take its "
                f"initial value as a parameter {name}=Tensor({after.shape!r}) and return that value plus the change"
            )
        if (before.shape, before.dtype, before.layout) != (after.shape, after.dtype, after.layout):
            raise TaskError(
                f"task {task.name!r}: {name} accumulates in place and is {before} as an input but {after} as an "
                "output; declare both alike"
            )
    for name in task.outputs:
        if name in task.tensors and name not in task.accumulates:
            raise TaskError(
                f"task {task.name!r}: {name} is the name of an input and of an output; name the output otherwise, or "
                f"say accumulates={name!r} if it is added to in place"
            )


def _check_layouts(task: Task) -> None:
    for name, tensor in {**task.tensors, **task.outputs}.items():
        if not tensor.layout or name == task.gemm.b:
            continue
        if name == task.gemm.a or not task.grid(name, tensor)["cols"]:
            raise TaskError(
                f"task {task.name!r}: {name} has layout {tensor.layout!r}, but none of its dimensions runs along the "
                f"product's columns; leave the layout of {name} out"
            )


def _check_fp8(task: Task) -> None:
    """The operands' scales have a place, and the operands lie as fp8 ones must: contiguous along K."""
    if not task.fp8:
        return
    if set(task.fp8) != {task.gemm.a, task.gemm.b}:
        raise TaskError(
            f"task {task.name!r}: fp8 gives scales to {', '.join(task.fp8)}, and the product is {task.gemm}; give one "
            f"to {task.gemm.a} and one to {task.gemm.b}"
        )
    if task.gemm.a_transposed or not task.gemm.b_transposed:
        raise TaskError(
            f"task {task.name!r}: fp8 operands are contiguous along {task.k}, and those of {task.gemm} are not both; "
            f"write the product as 'x @ w.T', or leave fp8 out"
        )
    for operand, name in task.fp8.items():
        if task.tensors[operand].dtype:
            raise TaskError(
                f"task {task.name!r}: {operand} is {task.tensors[operand].dtype} whatever the storage dtype; leave its "
                "dtype or fp8 out"
            )
        scale = task.tensors.get(name)
        vectors = [(), (task.m,), (task.n,)]
        if scale is None or scale.dimensions not in vectors or scale.dtype != ("f32" if scale.dimensions else None):
            raise TaskError(
                f"task {task.name!r}: fp8 names {name!r} for the scale of {operand}, which is no input that is a "
                f"float32 vector [{task.m}] or [{task.n}] or a number; name one"
            )
        if scale.layout != task.tensors[operand].layout and scale.dimensions == task.tensors[operand].dimensions[:1]:
            raise TaskError(
                f"task {task.name!r}: {name} has one scale for each row of {operand} and another layout; give both one"
            )
