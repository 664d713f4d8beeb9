"""A picture of docs/kernels.md: `python benchmarks/chart.py RECORDING ... --out docs/kernels.png`.

What share of the timed shapes does at least so well, by tax, by the unfused roofline and by torch.compile: one line a
kind of kernel. Recordings as `table.py` takes them; wants matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from drawing import pyplot, saved
from kinds import by_kind, rows_of
from out_file import out_file
from table import Row, admitted, recorded, unfused


def over_compile(row: Row) -> float | None:
    return row["over_compile"]["value"] if "over_compile" in row else None


PANELS: dict[str, tuple[Callable[[Row], float | None], tuple[float, float], bool]] = {
    "tax over the bare GEMM": (lambda r: r["tax"]["value"], (0.98, 1.4), False),
    "time over the unfused roofline": (lambda r: unfused(r)["value"], (0.6, 1.2), False),
    "speed-up over torch.compile": (over_compile, (0.9, 2), True),
}
"""By name: of a row, from where to where it is drawn, and whether more is better."""
COLOURS = {"bf16": "#1f5fa8", "bf16, programs": "#d1495b", "fp16": "#5b8e3e", "fp8": "#e0912f"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--out", type=out_file, required=True, metavar="IMAGE", help="a picture, such as a .png")
    options = parser.parse_args()
    kinds = by_kind(admitted(recorded(options.recordings)))
    draw({kind: rows_of(verdicts) for kind, verdicts in kinds.items()}, options.out)


def steps(values: list[float], more_is_better: bool) -> tuple[list[float], list[float]]:
    """The values from the best to the worst, and the share of them that is no worse, in percent."""
    ordered = sorted(values, reverse=more_is_better)
    return ordered, [100 * (i + 1) / len(ordered) for i in range(len(ordered))]


def draw(kinds: dict[str, list[Row]], image: Path) -> None:
    figure, panels = pyplot().subplots(1, len(PANELS), figsize=(11, 3.4), sharey=True)
    for panel, (name, (measure, limits, more)) in zip(panels, PANELS.items(), strict=True):
        for kind, rows in kinds.items():
            values = [v for r in rows if (v := measure(r)) is not None]
            panel.step(
                *steps(values, more), where="post", color=COLOURS.get(kind, "#555555"), label=f"{kind} ({len(values)})"
            )
        panel.axvline(1, color="grey", linewidth=0.8)
        panel.set(xlabel=name, xlim=limits, ylim=(0, 101))
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("share of shapes, %")
    panels[0].legend(title="kernels (shapes)", fontsize="small", loc="lower right")
    panels[1].set_title("How many shapes do at least as well")
    figure.tight_layout()
    saved(figure, image, dpi=110)


if __name__ == "__main__":
    main()
