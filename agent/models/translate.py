"""Walks a traced reference and grows the graph of an epilogue; `aten_pointwise` and `aten_columns` say how.

Each traced operation has a handler by its name in torch's operator library.  A handler sees the meaning
of its arguments: a value of the epilogue, an operand of the product before it is multiplied, column
numbers, or lanes that a view has set apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ...primitives.graph import Builder, GraphError
from ...primitives.types import FULL, Operand, ValueType
from ...tasks import Task
from .model import ModelError


class TracerError(ModelError):
    """What the tracer cannot translate: the torch operation, and why, in one sentence."""

    def __init__(self, message: str, operation: str = ""):
        super().__init__(message, "other")
        self.operation = operation


@dataclass(frozen=True)
class Value:
    """A value of the epilogue. `halves`: its columns lie as [even columns, odd columns] in the reference."""

    node: int
    halves: bool = False
    head: int = 0
    """Columns of a head, where the reference sees [rows, heads, columns of a head], or one value a head; else 0."""


@dataclass(frozen=True)
class Factor:
    """An operand of the product, before it is multiplied."""

    name: str
    transposed: bool = False


@dataclass(frozen=True)
class Index:
    """Column numbers, one a row."""

    node: int


@dataclass(frozen=True)
class Lanes:
    """Pairs of columns along a dimension of their own: the last one, or the one before it (halves)."""

    even: Value
    odd: Value
    last: bool


@dataclass(frozen=True)
class RowNumbers:
    """0, 1, ..., M - 1: to pick one column a row, or to compute with."""


Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enter a handler under the names of torch operations."""

    def enter(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return enter


# Operations that people ask for, and why no epilogue can have them.
_WHOLE_ROW = (
    "needs the whole row before its value is used, and an epilogue sees one tile; let the task return what joins over "
    "tiles (row sums, maxima, a log-sum-exp) and apply it afterwards"
)
_IN_PLACE = "makes or changes a part of a tensor in place; build the result as an expression (torch.stack, torch.where)"
_REASONS = {
    **dict.fromkeys(("_softmax", "_log_softmax", "softmax", "log_softmax"), _WHOLE_ROW),
    **dict.fromkeys(
        ("native_layer_norm", "_fused_rms_norm", "var", "std", "var_mean", "native_group_norm"), _WHOLE_ROW
    ),
    **dict.fromkeys(("sort", "topk", "argmax", "argmin", "cumsum", "median"), _WHOLE_ROW),
    "linalg_vector_norm": "takes the root of a whole row's sum; return the sum of squares",
    **dict.fromkeys(("amin", "min"), "has no primitive that joins the minimum over tiles"),
    **dict.fromkeys(("prod", "any", "all"), "has no primitive that joins it over tiles"),
    "nll_loss_forward": "reduces over rows; return the log-sum-exp and the target's logit",
    **dict.fromkeys(("bernoulli", "native_dropout", "rand_like", "randn_like", "rand"), "draws random numbers"),
    **dict.fromkeys(("copy_", "index_put_", "fill_", "empty", "empty_like", "new_empty", "empty_strided"), _IN_PLACE),
    **dict.fromkeys(("bmm", "dot", "mv", "convolution"), "is a second product; a task has one"),
}
_SPOKEN = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "nn.functional.layer_norm",
    "_fused_rms_norm": "nn.functional.rms_norm",
    "nll_loss_forward": "nn.functional.nll_loss",
    "linalg_vector_norm": "linalg.vector_norm",
    "native_dropout": "nn.functional.dropout",
    "_to_copy": "to",
}


def spoken(name: str) -> str:
    """An operation as a person writes it."""
    return f"torch.{_SPOKEN.get(name, name.strip('_'))}"


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of a traced tensor at the tracing sizes."""
    return tuple(node.meta["val"].shape)


class Translation:
    """The graph so far, and what every traced operation stands for."""

    def __init__(self, task: Task, sizes: dict[str, int]):
        self.task = task
        before = [Operand(name=n, **task.grid(n, task.outputs[n])) for n in task.accumulates]
        self.builder = Builder([*task.operands.values(), *before])
        self.rows, self.columns = task.m.size(sizes), task.n.size(sizes)
        self.name = ""
        """The operation at hand."""

    # --- for handlers ---------------------------------------------------------------------------

    def refuse(self, why: str) -> TracerError:
        return TracerError(f"{spoken(self.name)} {why}", spoken(self.name))

    def kind(self, value: Value) -> ValueType:
        return self.builder.types[value.node]

    def const(self, number: float) -> Value:
        return Value(self.builder.const(float(number)))

    def apply(self, op: str, *args: Any) -> Value:
        """A primitive on values and numbers, conditions turned into numbers where numbers are needed."""
        conditions = {"where": 1, "logical_and": 2, "logical_or": 2}.get(op, 0)
        values = [self.value(a) if i < conditions else self.number(self.value(a)) for i, a in enumerate(args)]
        node = self.builder.add(op, tuple(v.node for v in values))
        return Value(node, self.order(values), max(v.head for v in values))

    def order(self, values: Iterable[Value]) -> bool:
        """Whether the columns of joined values lie as halves; refuses a mixture."""
        orders = {v.halves for v in values if self.kind(v).cols >= FULL}
        if len(orders) > 1:
            raise self.refuse(
                "joins columns that lie as halves [even, odd] with columns that do not; declare layout='halves' on "
                "every tensor whose columns pair up with them"
            )
        return orders.pop() if orders else False

    def value(self, argument: Any) -> Value:
        """What an operation is given, as a value of the epilogue; refuses everything else."""
        if isinstance(argument, Value):
            return argument
        if isinstance(argument, bool | int | float):
            return self.const(argument)
        if isinstance(argument, RowNumbers):
            return Value(self.builder.add("row_index", (self.builder.acc(),)))
        if isinstance(argument, Factor):
            raise self.refuse(f"changes {argument.name} before the product; an epilogue sees only what comes after it")
        if isinstance(argument, Index):
            raise self.refuse("computes with column numbers, which only pick a column (gather)")
        if isinstance(argument, Lanes):
            raise self.refuse("works on pairs along a dimension of their own; take them apart with unbind first")
        raise self.refuse(f"is given {argument!r}, which has no meaning in an epilogue")

    def number(self, value: Value) -> Value:
        """A condition as one or zero, as torch's arithmetic takes it."""
        if self.kind(value).dtype != "bool":
            return value
        one, zero = self.builder.const(1.0), self.builder.const(0.0)
        return Value(self.builder.add("where", (value.node, one, zero)), value.halves)

    # --- the walk -------------------------------------------------------------------------------

    def run(self, module: fx.GraphModule, names: Iterable[str]) -> dict[str, Value]:
        """The outputs by name. names: what the traced function's arguments are, in order."""
        meanings: dict[fx.Node, Any] = {}
        arguments = iter(names)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                meanings[node] = self._argument(next(arguments))
            elif node.op == "get_attr":
                meanings[node] = self._constant(getattr(module, str(node.target)))
            elif node.op == "output":
                returned = fx.node.map_arg(node.args[0], lambda n: meanings[n])
                return {name: self._returned(name, value) for name, value in returned.items()}
            else:
                meanings[node] = self._call(node, meanings)
        raise AssertionError("a traced graph ends with its output")

    def _argument(self, name: str) -> Value | Factor | Index:
        if name in (self.task.gemm.a, self.task.gemm.b):
            return Factor(name)
        tensor = self.task.tensors[name]
        node = self.builder.operand(name)
        return Index(node) if tensor.is_index else Value(node, tensor.layout == "halves")

    def _constant(self, tensor: torch.Tensor) -> Value:
        if tensor.numel() != 1:
            raise TracerError(
                f"the reference makes a tensor of shape {list(tensor.shape)} itself; take it as an input of the task"
            )
        return self.const(tensor.item())

    def _call(self, node: fx.Node, meanings: dict[fx.Node, Any]) -> Any:
        def meaning(n: fx.Node) -> Any:
            return meanings[n]

        args: Any = fx.node.map_arg(node.args, meaning)
        kwargs: Any = fx.node.map_arg(node.kwargs, meaning)
        if getattr(node.target, "__name__", "") == "getitem":
            part = args[0][args[1]]
            if part is None:
                origin: Any = node.args[0]
                self.name = origin.target.overloadpacket.__name__
                raise self.refuse("gives positions, which an epilogue does not have")
            return part
        assert isinstance(node.target, torch._ops.OpOverload), node.target
        self.name = node.target.overloadpacket.__name__
        handler = HANDLERS.get(self.name)
        if handler is None and self.name.endswith("_") and self.name not in _REASONS:
            handler = HANDLERS.get(self.name.removesuffix("_"))  # in place, but the trace names the result
        if handler is None:
            raise self.refuse(_REASONS.get(self.name, "has no counterpart among the primitives"))
        try:
            result = handler(self, node, *args, **kwargs)
        except GraphError as error:
            raise self.refuse(f"cannot be written in an epilogue: {error}") from None
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise self.refuse("is called with options that the tracer does not know") from None
        if isinstance(result, Value) and not result.head:
            self._check_orientation(node)
        return result

    def _check_orientation(self, node: fx.Node) -> None:
        """Rows must stay rows: the tracing sizes tell the two apart."""
        shape = shape_of(node)
        padded = (1,) * (2 - len(shape)) + shape if shape != (self.rows,) else (self.rows, 1)
        if len(padded) != 2 or padded[0] not in (1, self.rows) or padded[1] == self.rows:
            raise self.refuse(f"gives a tensor of shape {self._symbolic(shape)}, which is not one of rows by columns")

    def _symbolic(self, shape: tuple[int, ...]) -> str:
        m, n = self.rows, self.columns
        names = {m: "M", n: "N", n // 2: "N/2", 2 * n: "2N"}
        return f"[{', '.join(names.get(s, str(s)) for s in shape)}]"

    def _returned(self, name: str, value: Any) -> Value:
        self.name = f"the output {name}"
        if not isinstance(value, Value):
            raise TracerError(f"the output {name} is not made of the product; return an expression of it")
        declared = self.task.outputs[name].layout == "halves"
        if self.kind(value).cols >= FULL and value.halves != declared:
            found, remedy = ("halves", "declare") if value.halves else ("no halves", "leave out")
            raise TracerError(
                f"the columns of the output {name} lie as {found} in the reference; {remedy} layout='halves' there"
            )
        return value
