"""The declaration of a task's tensors: symbolic shape, dtype, layout, and how test data are drawn."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import torch

from ..primitives.syntax import syntax_tree
from .errors import TaskError

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
}
FP8_ALIGNMENT = 16
"""Of what the contiguous extent of an fp8 operand must be a multiple."""


def beside(storage: str) -> str:
    """The dtype of what the storage dtype leaves open beside the product's operands: fp8 holds these only."""
    return "bf16" if storage == "fp8" else storage


_DIMENSION = re.compile(r"^(\d*)([A-Za-z]\w*)?$")


@dataclass(frozen=True)
class Dimension:
    """A coefficient times a symbol, such as 2F; a plain number has no symbol."""

    coefficient: int
    symbol: str | None

    @staticmethod
    def parse(text: str) -> Dimension:
        match = _DIMENSION.match(text)
        if not match or not text:
            raise TaskError(
                f"the dimension {text!r} is neither a symbol, a number, nor a number times a symbol such as '2F'; "
                "write one of these"
            )
        return Dimension(int(match[1] or 1), match[2])

    def size(self, sizes: dict[str, int]) -> int:
        if self.symbol is None:
            return self.coefficient
        if self.symbol not in sizes:
            raise TaskError(f"no size is given for the symbol {self.symbol!r}; name it in the workload's sizes")
        return self.coefficient * sizes[self.symbol]

    def __str__(self) -> str:
        if self.symbol is None:
            return str(self.coefficient)
        return self.symbol if self.coefficient == 1 else f"{self.coefficient}{self.symbol}"


@dataclass(frozen=True)
class Tensor:
    """One tensor of a task.

    shape: symbols separated by spaces, such as "M K" or "2F K"; empty for a Python float.
    dtype: "bf16", "fp16", "f32", "i32" or "i64"; None means the workload's storage dtype.
    layout: for tensors with paired columns (or rows, for a weight): "pairs" alternates the two, "halves"
        holds all of the first, then all of the second, as checkpoints do.
    scale: standard deviation of the drawn values: a number or an expression of the symbols ("K**-0.5").
    low, high: uniform values between the two instead; for integers, high may be a symbol: [low, high).
    """

    shape: str
    dtype: str | None = None
    layout: str | None = None
    scale: float | str = 1.0
    low: float | None = None
    high: float | str | None = None

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise TaskError(
                f"the dtype {self.dtype!r} is not one of {', '.join(DTYPES)}; use one of these or leave it out"
            )
        if self.layout not in (None, "halves", "pairs"):
            raise TaskError(
                f"the layout {self.layout!r} is neither 'halves' nor 'pairs'; use one of these or leave it out"
            )
        _ = self.dimensions

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return tuple(Dimension.parse(part) for part in self.shape.split())

    @property
    def symbols(self) -> set[str]:
        return {d.symbol for d in self.dimensions if d.symbol}

    @property
    def is_index(self) -> bool:
        return self.dtype in ("i32", "i64")

    def torch_dtype(self, storage: str) -> torch.dtype:
        """Where it is no operand of the product; see `Task.dtype_of` for those."""
        return DTYPES[self.dtype or beside(storage)]

    def size(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(d.size(sizes) for d in self.dimensions)

    def standard_deviation(self, sizes: dict[str, int]) -> float:
        return evaluate(self.scale, sizes)

    def __str__(self) -> str:
        parts = [f"[{', '.join(str(d) for d in self.dimensions)}]" if self.shape else "a Python float"]
        parts.append(self.dtype or ("storage dtype" if self.shape else ""))
        if self.layout:
            parts.append(f"layout {self.layout}")
        return " ".join(p for p in parts if p)


def evaluate(expression: float | str, sizes: dict[str, int]) -> float:
    """A number, or an arithmetic expression over the symbols' sizes, such as "K**-0.5"."""
    if not isinstance(expression, str):
        return float(expression)
    try:
        return float(_arithmetic(_expression(expression), sizes))
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise TaskError(
            f"the scale {expression!r} cannot be computed from the sizes {sizes} ({error}); write a number or an "
            "arithmetic expression of the shape's symbols such as 'K**-0.5'"
        ) from None


def _expression(text: str) -> ast.expr:
    body = syntax_tree(text.strip()).body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise TypeError(f"{text} is not arithmetic")
    return body[0].value


def _arithmetic(node: ast.expr, sizes: dict[str, int]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_arithmetic(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        left, right = _arithmetic(node.left, sizes), _arithmetic(node.right, sizes)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return left / right
        if isinstance(node.op, ast.Pow):
            return left**right
    raise TypeError(f"{ast.unparse(node)} is not arithmetic")
