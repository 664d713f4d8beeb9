"""The decorator that marks the epilogue of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable)


def epilogue(function: F) -> F:
    """Mark a function as the epilogue of its file, and leave it as it is.

    It stays an ordinary function: call it on torch tensors to see what it computes.  acc is [M, N]; pass
    one value a column as [N], one value a row as [M, 1] (`rstd[:, None]`), column numbers for select as [M].
    """
    function.is_epilogue = True  # type: ignore[attr-defined]
    return function
