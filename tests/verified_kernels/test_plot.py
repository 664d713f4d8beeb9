"""The tax over shapes, in the terminal and in files."""

import io
import re
import sys
import xml.etree.ElementTree as tree
from pathlib import Path

import pytest
from codasmith.agent.cli import app
from codasmith.tasks import Workload
from codasmith.verified_kernels import RegistryError, admit, describe, plot, render, store
from codasmith.verified_kernels.record import Best, Evidence, Measure, Timing, WorkloadEvidence
from rich.console import Console
from typer.testing import CliRunner

SHIPPED = Path(store.__file__).parent / "kernels"


@pytest.fixture
def evidence():
    def seen(m, *taxes):
        names = ("a", "b")
        timings = tuple(
            Timing(schedule=s, tax=Measure(value=t, low=t - 0.02, high=t + 0.02))
            for s, t in zip(names, taxes, strict=False)
        )
        return WorkloadEvidence(workload=Workload(sizes={"M": m, "N": 8, "K": 8}), timings=timings)

    best = (Best(sizes={"M": 16, "N": 8, "K": 8}, schedule="b"),)
    rows = (seen(16, 1.3, 1.1), seen(32, 0.95), seen(64))
    return Evidence(storage="bf16", date="", environment={}, objects=(), workloads=rows, best=best)


def test_the_winning_schedule_of_each_shape_is_drawn(evidence):
    assert [(b.label, b.tax) for b in plot.bars_of(evidence)] == [("M16 N8 K8 bf16", 1.1), ("M32 N8 K8 bf16", 0.95)]


def test_bars_in_the_terminal_grow_with_the_tax_and_mark_what_is_free(evidence):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(plot.in_terminal(evidence))
    _, slow, fast = console.export_text().splitlines()[:3]
    assert slow.count("█") > 2 * fast.count("█") and "1.100 [1.080, 1.120]" in slow
    assert "┆" in fast and "┆" not in slow
    assert fast.index("┆") <= slow.rindex("█")
    assert plot.in_terminal(evidence.model_copy(update={"workloads": ()})) is None


@pytest.mark.parametrize("name", ["llama_block", "rmsnorm_swiglu"])
@pytest.mark.parametrize("width", [80, 200])
def test_nothing_of_a_shipped_kernels_page_is_cut_off_in_a_narrow_terminal(name, width, monkeypatch):
    monkeypatch.setattr(store, "SHIPPED", SHIPPED)
    console = Console(width=width, record=True, file=io.StringIO())
    found = describe(name)
    console.print(render(found))
    page = console.export_text()
    assert "…" not in page
    for evidence in found.record.evidence:
        for bar in plot.bars_of(evidence):
            (line,) = (
                line for line in page.splitlines() if line.startswith(f"{bar.label} ") and line.endswith(str(bar))
            )
            assert "█" in line


def test_an_svg_has_a_bar_a_shape_whose_length_is_its_tax(evidence):
    root = tree.fromstring(plot.svg({"bf16": plot.bars_of(evidence)}, "a <b> & c"))
    space = "{http://www.w3.org/2000/svg}"
    slow, fast = (float(r.get("width")) for r in root.iter(f"{space}rect"))
    assert slow / fast == pytest.approx((1.1 - 0.9) / (0.95 - 0.9), rel=0.01)
    assert next(root.iter(f"{space}text")).text == "a <b> & c"


def test_kernels_show_writes_the_plot_where_it_is_asked_to(sample, evaluation, evidence, tmp_path, monkeypatch):
    task = sample("sample_gated")
    admit(evaluation(task), task, author="x")
    found = describe("sample_gated")
    record = found.record.model_copy(update={"evidence": (evidence,)})
    monkeypatch.setattr("codasmith.verified_kernels.describe", lambda name: found.model_copy(update={"record": record}))
    result = CliRunner().invoke(app, ["kernels", "show", "sample_gated", "--plot", str(tmp_path / "p.svg")])
    assert result.exit_code == 0, result.output
    assert "tax over shapes, bf16" in result.stdout and "M16 N8 K8 bf16" in (tmp_path / "p.svg").read_text()


def test_what_cannot_be_plotted_is_one_sentence(sample, evaluation, evidence, tmp_path, monkeypatch):
    task = sample("sample_gated")
    record = admit(evaluation(task), task, author="x").record
    with pytest.raises(RegistryError, match="was not timed at any shape"):
        plot.save(record, "n", tmp_path / "p.svg")
    timed = record.model_copy(update={"evidence": (evidence,)})
    with pytest.raises(RegistryError, match=r"ends in \.svg or \.png"):
        plot.save(timed, "n", tmp_path / "p.pdf")
    with pytest.raises(RegistryError, match=r"cannot be written to .*: No such file"):
        plot.save(timed, "n", tmp_path / "nowhere" / "p.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RegistryError, match="a PNG needs matplotlib, which is not installed"):
        plot.save(timed, "n", tmp_path / "p.png")


def test_tasks_show_says_which_sizes_are_legal():
    shown = CliRunner().invoke(app, ["tasks", "show", "linear_zloss"]).stdout
    assert re.search(r"^domain   M any; K a multiple of 8; N a multiple of 4$", shown, re.M)
