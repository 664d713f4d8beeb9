"""Tasks: what a kernel must compute, as a plain-PyTorch reference with symbolic shapes.

A task is one file: a function with `@task`.  The catalogue holds the project's own, one short file each;
`load_task` takes any file on disk.  From the one reference follow the test data (`draw`), the float64
`oracle` and the `unfused` path whose own error is a kernel's budget.  A `ProgramTask` is the
same for several stages.  Depends on `primitives` for the vocabulary's types and on `templates` for programs as data.
"""

from .domain import legal
from .errors import TaskError
from .inputs import draw
from .layout import accumulator, deinterleave, from_kernel, interleave, to_kernel
from .load import catalogue, load_task, program_tasks, shipped, shipped_task, validate
from .oracle import cast, oracle, unfused
from .program_task import ProgramTask
from .scaled import scaled, scaled_epilogue, text_of
from .task import Product, Task, task
from .tensor import Tensor
from .workload import FAMILIES, Workload

__all__ = [
    "FAMILIES",
    "Product",
    "ProgramTask",
    "Task",
    "TaskError",
    "Tensor",
    "Workload",
    "accumulator",
    "cast",
    "catalogue",
    "deinterleave",
    "draw",
    "from_kernel",
    "interleave",
    "legal",
    "load_task",
    "oracle",
    "program_tasks",
    "scaled",
    "scaled_epilogue",
    "shipped",
    "shipped_task",
    "task",
    "text_of",
    "to_kernel",
    "unfused",
    "validate",
]
