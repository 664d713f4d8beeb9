"""How fast the hardware could be: floating-point peak, memory bandwidth, compulsory bytes.

The peaks are the vendor's data sheets (dense 16-bit tensor-core rate, HBM bandwidth), so a time below this
roofline is a measurement that went wrong, not a fast kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ..tasks import ProgramTask, Task, Workload
from ..tasks.tensor import DTYPES, beside

PEAKS = {
    "H200": (989e12, 4.8e12),
    "H100 80GB HBM3": (989e12, 3.35e12),
    "H100 PCIe": (756e12, 2.0e12),
    "H100 NVL": (835e12, 3.9e12),
    "GH200": (989e12, 4.9e12),
}
"""By a part of the GPU's name: dense bf16 floating-point operations and bytes a second."""
FASTEST = (989e12, 4.9e12)
FP8 = 1979 / 989
"""How many times faster operands of 8 bits multiply, by the same sheets."""


def peaks(gpu: str) -> tuple[float, float]:
    """Operations and bytes a second; for an unknown Hopper part, the fastest one's, which refuses least wrongly."""
    return next((p for name, p in PEAKS.items() if name in gpu), FASTEST)


def compulsory_bytes(task: Task, workload: Workload) -> int:
    """Every input read once and every output written once (an accumulated output both)."""
    return sum(_bytes(task, name, workload) for name in (*task.tensors, *task.outputs))


def roofline_ms(task: Task, workload: Workload, gpu: str) -> float:
    """The least time that the product's operations and the compulsory bytes take, in milliseconds."""
    operations, bandwidth = peaks(gpu)
    operations *= FP8 if workload.storage == "fp8" else 1.0
    return 1e3 * max(task.flops(workload.sizes) / operations, compulsory_bytes(task, workload) / bandwidth)


def pointwise_bytes(task: Task, workload: Workload, plain: Collection[str] = ()) -> int:
    """What the pointwise rest of an unfused path must move: the product once in, other inputs and outputs once.

    Of a program, that of each stage but those in `plain`, which only store their product; formulas and row kernels
    move what they read and write.
    """
    total = sum(_rest(part, workload) for stage, part in task.parts.items() if stage not in plain)
    for step in task.steps if isinstance(task, ProgramTask) else ():
        if step.gemm is None:
            total += sum(_bytes(task, name, workload) for name in (*step.reads, *step.writes))
    return total


def _rest(task: Task, workload: Workload) -> int:
    m, n = task.m.size(workload.sizes), task.n.size(workload.sizes)
    product = m * n * DTYPES[beside(workload.storage)].itemsize
    operands = sum(_bytes(task, name, workload) for name in (task.gemm.a, task.gemm.b))
    return compulsory_bytes(task, workload) - operands + product


def _bytes(task: Task, name: str, workload: Workload) -> int:
    tensor = task.everything[name]
    if not tensor.dimensions:
        return 0
    return prod(tensor.size(workload.sizes)) * DTYPES[task.dtype_of(name, workload.storage)].itemsize
