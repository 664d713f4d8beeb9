"""Scripts of benchmarks/: what pages say of them is so, and a mistake of their user's is one sentence."""

import argparse
import importlib
import lzma
import re
import sys
from pathlib import Path

import pytest
import torch
from codasmith.evals.hand_written import source_for

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks"
RESULTS = SCRIPTS / "results"
PAGES = [ROOT / "README.md", SCRIPTS / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a script's main in this process; what it said as it ended."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def call(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(name.removesuffix(".py")).main()
        assert ended.value.code not in (0, None)
        said = ended.value.code if isinstance(ended.value.code, str) else capsys.readouterr().err.splitlines()[-1]
        assert "\n" not in said
        return said

    yield call
    for script in SCRIPTS.glob("*.py"):
        if getattr(sys.modules.get(script.stem), "__file__", None) == str(script):
            del sys.modules[script.stem]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_names_scripts_that_there_are_with_options_that_they_have(page):
    text = page.read_text()
    prefix = r"(?:benchmarks/)?" if page.parent == SCRIPTS else r"benchmarks/"
    for name, rest in re.findall(rf"(?<![\w/.]){prefix}(\w+\.py)\b([^`#|\"\n]*)", text):
        script = (SCRIPTS / name).read_text()
        for option in re.findall(r"(?<!\S)--[\w-]+", rest):
            assert f'"{option}"' in script, f"{page.name}: {name} {option}"


def test_the_page_of_the_scripts_names_them_all_and_every_recording():
    page = (SCRIPTS / "README.md").read_text()
    assert [s.name for s in SCRIPTS.glob("*.py") if f"`{s.name}`" not in page] == []
    assert [r.name for r in RESULTS.iterdir() if f"`{r.name}`" not in page] == []


MISTAKES = {
    "table.py nowhere.jsonl": "no such file: nowhere.jsonl; pass recordings",
    "table.py cut.jsonl": "no admitted verdict in the files given",
    "table.py other.jsonl": "no admitted verdict in the files given",
    "table.py bad.xz": "bad.xz cannot be read as a recording (Input format not supported by decoder); name what",
    "kinds.py list.jsonl": "no admitted verdict in the files given",
    "chart.py list.jsonl --out nowhere/x.png": "there is no folder nowhere; make it first",
    "rows.py": "there is no GPU; --dry runs tiny sizes without one",
    "libraries.py": "timing a library's function takes a Hopper GPU",
    "libraries.py --out folder": "folder is a folder; name a file in it",
    "host_time.py linear_swigul": "did you mean linear_swiglu",
    "host_time.py llama_block": "llama_block is a program, and the parts are those of one kernel's call",
    "batch_invariance.py linear_swigul": "did you mean linear_swiglu",
    "batch_invariance.py linear_rope --width 100": "linear_rope cannot have 1 rows at --width 100: x has 100",
    "admit.py gelu_bwd_fp8 --compile-only": "contiguous along K, and those of gelu_bwd, dy @ w, are not both",
    "admit.py linear_bias_fp8 --source folder --compile-only": "no candidate for the tier closed in folder; write it",
    "admit.py linear_bias:open --compile-only": "linear_bias has no candidate for the tier open in ",
    "repeat.py --out nowhere/x.jsonl": "there is no folder nowhere",
    "builtin.py llama_block": "the catalogue has no task of one product called 'llama_block'",
    "prompt_size.py cut.jsonl": "cut.jsonl is no tokenizer.json (",
    "solved_alone.py list.jsonl": "list.jsonl holds no task's row",
    "train.py --dry --steps 0": "--steps, --batch, --length and --turns are 1 or more",
    "train.py --dry --out nowhere/x.json": "there is no folder nowhere",
    "train.py --merge runs.json --out x.json": "runs.json does not say its steps and batch and length and",
    "train.py --plot x.png --out STEP": "there are no losses to draw: the file is of --step-1b",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_sentence(run, tmp_path, command):
    (tmp_path / "cut.jsonl").write_text("{")
    (tmp_path / "list.jsonl").write_text("[]\n")
    (tmp_path / "other.jsonl").write_text('{"status": "passed"}\n')
    (tmp_path / "bad.xz").write_bytes(b"no archive")
    (tmp_path / "runs.json").write_text('{"runs": {}}')
    (tmp_path / "folder").mkdir()
    if command.startswith("prompt_size"):
        pytest.importorskip("tokenizers")
    name, *arguments = command.split()
    step = RESULTS / "h200-2026-11-29-step1b.json"
    assert MISTAKES[command] in run(name, *(step if a == "STEP" else a for a in arguments))


def test_candidates_of_a_folder_serve_for_fp8_operands_too(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    admit, options = importlib.import_module("admit"), argparse.Namespace(source=tmp_path)
    candidate = admit._candidate
    own = source_for("linear_bias").replace("def linear_bias", "def mine")
    (tmp_path / "linear_bias.py").write_text(own)
    assert candidate("linear_bias", options)[1:] == ("closed", own)
    assert "def mine_fp8(acc, x_scale, w_scale, bias)" in candidate("linear_bias_fp8", options)[2]
    (tmp_path / "linear_bias_fp8.py").write_text("written for it")
    assert candidate("linear_bias_fp8", options)[2] == "written for it"
    assert candidate("linear_bias_fp8", argparse.Namespace(source=admit.HAND_WRITTEN))[2] == source_for(
        "linear_bias_fp8"
    )


def test_a_picture_that_cannot_be_drawn_is_one_sentence(run, tmp_path):
    sys.path.insert(0, str(SCRIPTS))  # the fixture takes it out again
    saved = importlib.import_module("drawing").saved

    class Figure:
        def savefig(self, image):
            raise ValueError("Format 'foo' is not supported")

    with pytest.raises(SystemExit, match=r"cannot be written to x\.foo: Format 'foo' is not supported"):
        saved(Figure(), Path("x.foo"))


def test_lines_that_a_kill_cut_short_cost_no_other(run, tmp_path):
    sys.path.insert(0, str(SCRIPTS))
    table = importlib.import_module("table")
    whole = table.text(RESULTS / "h200-2026-11-29-gate.jsonl.xz").splitlines()[:3]
    file = tmp_path / "r.jsonl.xz"
    file.write_bytes(lzma.compress("\n".join([whole[0], whole[1][:500], whole[2]]).encode()))
    assert [row["task_digest"] for row in table.recorded([file])] == [
        row["task_digest"] for row in table.recorded([RESULTS / "h200-2026-11-29-gate.jsonl.xz"])[:3:2]
    ]


def test_the_scripted_model_says_what_it_is_when_asked(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scripted_model.py", "--help"])
    with pytest.raises(SystemExit):
        importlib.import_module("scripted_model").main()
    assert "A model whose skill is known" in capsys.readouterr().out
