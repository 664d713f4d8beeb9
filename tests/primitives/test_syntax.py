"""Parsing from many threads at once."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

from codasmith.primitives.syntax import syntax_tree

BODY = "".join(f"    v{i} = ((((acc + {i}) * 2) - 1) / 3)\n" for i in range(200))
SOURCE = f"def f(acc):\n{BODY}    return {{'y': v0}}\n"


class Pause:
    """Garbage whose collection lets another thread run, in the middle of whatever set the collector off."""

    def __init__(self):
        self.me = self

    def __del__(self):
        time.sleep(0.0005)


def parse(_):
    Pause()
    return syntax_tree(SOURCE)


def test_threads_that_parse_at_once_all_get_their_tree():
    """Without the lock CPython answers some of them with SystemError: AST constructor recursion depth mismatch."""
    before = gc.get_threshold()
    gc.set_threshold(50, 1, 1)
    try:
        with ThreadPoolExecutor(4) as pool:
            trees = list(pool.map(parse, range(60)))
    finally:
        gc.set_threshold(*before)
    assert {len(t.body[0].body) for t in trees} == {201}
