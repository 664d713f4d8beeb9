"""Scripts that are run by path: their folder comes first on the import path."""

import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent.parent / "benchmarks"


def test_no_script_takes_the_place_of_a_module_that_python_comes_with():
    names = {script.stem for script in SCRIPTS.glob("*.py")}
    assert len(names) > 5 and not names & sys.stdlib_module_names
