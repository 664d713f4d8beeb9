"""Tasks: what a kernel must compute, as a plain-PyTorch reference with symbolic shapes.

A task is one file: a function with `@task`.  The catalogue holds the project's own, one short file each;
`load_task` takes any file on disk.  Depends on `primitives` for the vocabulary's types, and on nothing above.
"""

from .errors import TaskError
from .task import Product, Task, task
from .tensor import Tensor
from .workload import FAMILIES, Workload

__all__ = ["FAMILIES", "Product", "Task", "TaskError", "Tensor", "Workload", "task"]
