"""What the template must know of a task."""

from __future__ import annotations

from ..tasks.task import Task
from ..templates.frame import Frame
from ..templates.signature import TensorSpec


def frame_of(task: Task, storage: str) -> Frame:
    """The task's product and tensors, with the storage dtype filled in."""
    tensors = {}
    for name, tensor in [*task.tensors.items(), *task.outputs.items()]:
        dtype = task.dtype_of(name, storage) if tensor.dimensions else tensor.dtype or "float"
        tensors[name] = TensorSpec(
            shape=tuple((d.coefficient, d.symbol) for d in tensor.dimensions),
            dtype=dtype,
            halves=tensor.layout == "halves",
        )
    return Frame(
        task=task.name,
        storage=storage,
        a=task.gemm.a,
        a_transposed=task.gemm.a_transposed,
        b=task.gemm.b,
        b_transposed=task.gemm.b_transposed,
        tensors=tensors,
        inputs=tuple(task.tensors),
        outputs=tuple(task.outputs),
        accumulates=task.accumulates,
    )
