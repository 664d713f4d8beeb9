"""Parsing Python, one thread at a time.

CPython 3.11 and 3.12 count the depth of a tree under construction for the whole interpreter: two threads that
parse at once can end in a SystemError.  Silencing the parser's warnings is global to the process as well.
"""

from __future__ import annotations

import ast
import io
import threading
import tokenize
import warnings

_LOCK = threading.RLock()  # a collector that runs in the middle may parse too


def syntax_tree(source: str) -> ast.Module:
    """`ast.parse`, without warnings. Raises what it raises: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's remarks on a candidate are not the user's concern
        return ast.parse(source)


def other_encoding(source: str) -> str:
    """The encoding that a comment at the top asks for, where it is not UTF-8: an import would read another text than
    what stands there, code in a comment's place, say. "" for none, and for one that Python does not know."""
    for text in (source, source.replace("\r", "\n")):
        try:
            found = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0]
        except SyntaxError:
            continue
        if found not in ("utf-8", "utf-8-sig", "ascii"):
            return found
    return ""
