"""Scripts that are run by path: their folder comes first on the import path."""

import importlib
import sys
from pathlib import Path

import pytest
from codasmith.tasks import load_task

SCRIPTS = Path(__file__).parent.parent.parent / "benchmarks"


def test_no_script_takes_the_place_of_a_module_that_python_comes_with():
    names = {script.stem for script in SCRIPTS.glob("*.py")}
    assert len(names) > 5 and not names & sys.stdlib_module_names


def test_sizes_given_to_a_script_are_those_of_the_task_or_one_sentence_says_why(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    loaded, task = importlib.import_module("loaded"), load_task("linear_bias")
    assert loaded.sizes_of(task, ["M=16", "N=64", "K=32"], {}) == {"M": 16, "N": 64, "K": 32}
    assert loaded.sizes_of(task, [], task.default_sizes(256)) == task.default_sizes(256)
    for pairs, said in (
        (["M=16"], "no size is given for"),
        (["M16"], "M16 are no sizes"),
        (["M=16", "N=3", "K=32"], "N"),
    ):
        with pytest.raises(SystemExit, match=said):
            loaded.sizes_of(task, pairs, {})
    with pytest.raises(SystemExit, match="x has 24 contiguous elements"):  # which in bf16 it may have
        loaded.sizes_of(load_task("linear_bias_fp8"), ["M=16", "N=64", "K=24"], {})
