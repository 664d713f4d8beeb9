"""The vocabulary of epilogues: primitives, each with a torch meaning and a lowering, and the graph of them.

One file a class of primitive (values, coordinates, pairs, heads, reductions, stateful accumulation); vectors, tiles and
scalars are the task's operands, typed in `types`.  `reader` turns an epilogue's source into the graph
without executing it; `interpret` computes a graph on tensors; `source` writes a graph as a candidate.
Nothing here knows of GPUs or tasks.

Every primitive is an ordinary function on torch tensors too; `from codasmith.primitives import silu`.
"""

from .coordinates import column_index, row_index
from .epilogue import epilogue
from .graph import Builder, Graph, GraphError, Node
from .heads import head_sum
from .interpret import evaluate
from .language import ReadError
from .pairs import pack, rotate, unpack
from .primitive import REGISTRY, Primitive
from .reader import read
from .reductions import col_absmax, col_max, col_sum, row_absmax, row_max, row_sum
from .reference import render_reference
from .source import to_source
from .stateful import row_lse, select
from .types import Operand, ValueType
from .values import absolute as abs
from .values import (
    add,
    clamp,
    cos,
    div,
    eq,
    erf,
    exp,
    ge,
    gelu,
    gelu_grad,
    gelu_tanh,
    gelu_tanh_grad,
    gt,
    le,
    log,
    logical_and,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    reciprocal,
    relu,
    relu_grad,
    relu_sq,
    relu_sq_grad,
    rsqrt,
    sigmoid,
    sigmoid_grad,
    silu,
    silu_grad,
    sin,
    softcap,
    softplus,
    sqrt,
    sub,
    tanh,
    tanh_grad,
    where,
)

__all__ = [
    "REGISTRY",
    "Builder",
    "Graph",
    "GraphError",
    "Node",
    "Operand",
    "Primitive",
    "ReadError",
    "ValueType",
    "abs",
    "add",
    "clamp",
    "col_absmax",
    "col_max",
    "col_sum",
    "column_index",
    "cos",
    "div",
    "epilogue",
    "eq",
    "erf",
    "evaluate",
    "exp",
    "ge",
    "gelu",
    "gelu_grad",
    "gelu_tanh",
    "gelu_tanh_grad",
    "gt",
    "head_sum",
    "le",
    "log",
    "logical_and",
    "logical_or",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "pack",
    "read",
    "reciprocal",
    "relu",
    "relu_grad",
    "relu_sq",
    "relu_sq_grad",
    "render_reference",
    "rotate",
    "row_absmax",
    "row_index",
    "row_lse",
    "row_max",
    "row_sum",
    "rsqrt",
    "select",
    "sigmoid",
    "sigmoid_grad",
    "silu",
    "silu_grad",
    "sin",
    "softcap",
    "softplus",
    "sqrt",
    "sub",
    "tanh",
    "tanh_grad",
    "to_source",
    "unpack",
    "where",
]
