"""Parsing Python, one thread at a time.

CPython 3.11 and 3.12 count the depth of a tree under construction for the whole interpreter: two threads that
parse at once can end in a SystemError.  Silencing the parser's warnings is global to the process as well.
"""

from __future__ import annotations

import ast
import threading
import warnings

_LOCK = threading.RLock()  # a collector that runs in the middle may parse too


def syntax_tree(source: str) -> ast.Module:
    """`ast.parse`, without warnings. Raises what it raises: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's remarks on a candidate are not the user's concern
        return ast.parse(source)
