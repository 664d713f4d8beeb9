"""The operators behind modules: loaded once a process, however many layers a model has."""

from __future__ import annotations

import warnings
from functools import cache

from ..errors import FallbackWarning
from ..load import load
from ..operator import Operator


@cache
def operator(*names: str) -> Operator:
    """The first of these tasks' operators that has a kernel; the first, with its reference, if none has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # the operator says so itself when it is called
        loaded = [load(name) for name in names]
    return next((op for op in loaded if op.entry), loaded[0])
