"""How fast the hardware could be: floating-point peak, memory bandwidth, compulsory bytes.

The peaks are the vendor's data sheets (dense 16-bit tensor-core rate, HBM bandwidth), so a time below this
roofline is a measurement that went wrong, not a fast kernel.
"""

from __future__ import annotations

from ..tasks import Task, Workload
from ..tasks.tensor import DTYPES

PEAKS = {
    "H200": (989e12, 4.8e12),
    "H100 80GB HBM3": (989e12, 3.35e12),
    "H100 PCIe": (756e12, 2.0e12),
    "H100 NVL": (835e12, 3.9e12),
    "GH200": (989e12, 4.9e12),
}
"""By a part of the GPU's name: dense bf16 floating-point operations and bytes a second."""
FASTEST = (989e12, 4.9e12)


def peaks(gpu: str) -> tuple[float, float]:
    """Operations and bytes a second; for an unknown Hopper part, the fastest one's, which refuses least wrongly."""
    return next((p for name, p in PEAKS.items() if name in gpu), FASTEST)


def compulsory_bytes(task: Task, workload: Workload) -> int:
    """Every input read once and every output written once (an accumulated output both)."""
    total = 0
    tensors = list(task.tensors.items()) + list(task.outputs.items())
    for _, tensor in tensors:
        if tensor.dimensions:
            count = 1
            for extent in tensor.size(workload.sizes):
                count *= extent
            total += count * DTYPES[tensor.dtype or workload.storage].itemsize
    return total


def roofline_ms(task: Task, workload: Workload, gpu: str) -> float:
    """The least time that the product's operations and the compulsory bytes take, in milliseconds."""
    operations, bandwidth = peaks(gpu)
    return 1e3 * max(task.flops(workload.sizes) / operations, compulsory_bytes(task, workload) / bandwidth)


def pointwise_bytes(task: Task, workload: Workload) -> int:
    """What the pointwise rest of an unfused path must move: the product once in, other inputs and outputs once."""
    a, b = task.tensors[task.gemm.a], task.tensors[task.gemm.b]
    m, n = task.m.size(workload.sizes), task.n.size(workload.sizes)
    operands = (
        sum(t.size(workload.sizes)[0] * t.size(workload.sizes)[1] for t in (a, b)) * DTYPES[workload.storage].itemsize
    )
    return compulsory_bytes(task, workload) - operands + m * n * DTYPES[workload.storage].itemsize
