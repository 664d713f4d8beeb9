"""The vocabulary of epilogues: primitives, each with a torch meaning and a lowering, and the graph of them.

One file a class of primitive (values, pairs, reductions, stateful accumulation); vectors, tiles and
scalars are the task's operands, typed in `types`.  `reader` turns an epilogue's source into the graph
without executing it; `interpret` computes a graph on tensors.  Nothing here knows of GPUs or tasks.

Everything named in `__all__` in lower case is an ordinary function on torch tensors too.
"""

from . import pairs, reductions, stateful, values  # noqa: F401  (they enter themselves into REGISTRY)
from .graph import Builder, Graph, GraphError, Node
from .primitive import REGISTRY, Primitive
from .types import Operand, ValueType
