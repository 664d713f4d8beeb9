"""A candidate's source is parsed and nothing in it ever runs."""

import sys

import pytest
from codasmith.primitives import ReadError, read

IMPORTS = "from codasmith.primitives import epilogue\n"
OK = '@epilogue\ndef f(acc):\n    return {"o": acc}\n'

# Each would create the file {path} if Python ran it.
TOUCH = "__import__('pathlib').Path({path!r}).touch()"
PLACES = {
    "module level": IMPORTS + "{touch}\n" + OK,
    "constant": IMPORTS + "C = {touch}\n" + OK,
    "default argument": IMPORTS + OK.replace("acc)", "acc={touch})"),
    "keyword default": IMPORTS + OK.replace("acc)", "acc, *, a={touch})"),
    "decorator": IMPORTS + "@{touch}\n" + OK,
    "decorator of a helper": IMPORTS + "@{touch}\ndef h(x):\n    return x\n" + OK,
    "annotation": IMPORTS + OK.replace("acc)", "acc: {touch})"),
    "return annotation": IMPORTS + OK.replace("):", ") -> {touch}:"),
    "string annotation": IMPORTS + OK.replace("acc)", 'acc: "{touch}")'),
    "variable annotation": IMPORTS + "x: {touch} = 1\n" + OK,
    "class body": IMPORTS + "class A:\n    {touch}\n" + OK,
    "body": IMPORTS + OK.replace("    return", "    {touch}\n    return"),
    "returned value": IMPORTS + OK.replace("acc}", "{touch}}"),
    "unused helper": IMPORTS + "def h(x):\n    return {touch}\n" + OK,
    "f-string": IMPORTS + OK.replace('"o"', "f'{{touch}}'"),
    "lambda": IMPORTS + "g = lambda: {touch}\n" + OK,
    "condition of a guard": "if {touch}:\n    pass\n" + IMPORTS + OK,
}


@pytest.mark.parametrize("place", PLACES)
def test_side_effects_are_refused_and_do_not_happen(place, tmp_path):
    path = tmp_path / "ran"
    source = PLACES[place].replace("{touch}", TOUCH.format(path=str(path)))
    with pytest.raises(ReadError) as caught:
        read(source, ())
    assert caught.value.line is not None
    assert not path.exists()


def test_the_payload_would_have_worked(tmp_path):
    path = tmp_path / "ran"
    exec(TOUCH.format(path=str(path)))
    assert path.exists()


def test_docstrings_and_comments_are_only_text(tmp_path):
    path = tmp_path / "ran"
    touch = TOUCH.format(path=str(path))
    source = f'"""{touch}"""\n# {touch}\n{IMPORTS}{OK.replace("    return", f"    {touch!r}" + chr(10) + "    return")}'
    assert read(source, ()).outputs == {"o": 0}
    assert not path.exists()


def test_reading_imports_nothing_that_the_source_names(tmp_path, monkeypatch):
    (tmp_path / "payload_beside_it.py").write_text("raise SystemExit(7)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ReadError, match="payload_beside_it"):
        read(f"import payload_beside_it\n{IMPORTS}{OK}", ())
    assert "payload_beside_it" not in sys.modules
