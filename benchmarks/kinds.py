"""The README's table: `python benchmarks/kinds.py RECORDING ...`: verdicts by kind of kernel, and each slower shape.

Recordings as `table.py` takes them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from codasmith.tasks import ProgramTask, shipped
from codasmith.tasks.scaled import SUFFIX
from table import Row, Verdict, admitted, key, recorded, rows_of

KINDS = {
    "bf16": "bf16, one product",
    "bf16, programs": "bf16, programs",
    "fp16": "fp16, one product",
    "fp8": "fp8 e4m3 operands",
}
WIDE = {"linear_rope": 3, "rmsnorm_rope": 3}
VOCABULARY = {"rmsnorm_cross_entropy": 32768, "linear_cross_entropy_partial": 32768}
PAPER = (
    *("residual_partial_rmsnorm", "rmsnorm_scale", "rmsnorm_swiglu", "rmsnorm_swiglu_z", *WIDE, *VOCABULARY),
    *("residual_rmsnorm_bwd", "residual_rmsnorm_bwd_inplace", "swiglu_bwd", "linear_swiglu"),
)
"""The ten kernels of the CODA paper, two of them in two variants."""
ANSWERS = ("faster", "undecided", "slower")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="+", type=Path)
    verdicts = admitted(recorded(parser.parse_args().recordings))
    width = 100 * interval_width(verdicts)
    lines = [*table(by_kind(verdicts)), "", *slower(verdicts), f"intervals of tax: {width:.1f} % in the median"]
    print("\n".join([*lines, *map("at the paper's shapes: {}".format, at_the_papers_shapes(verdicts))]))


def by_kind(verdicts: list[Verdict]) -> dict[str, list[Verdict]]:
    """By storage dtype, programs apart."""
    known = shipped()
    found: dict[str, list[Verdict]] = {kind: [] for kind in KINDS}
    for verdict in verdicts:
        program = isinstance(known.get(verdict["task"]), ProgramTask)
        found.setdefault(key(verdict)[2] + ", programs" * program, []).append(verdict)
    return {kind: some for kind, some in found.items() if some}


def papers_shapes(task: str) -> set[tuple[int, int, int]]:
    """M, N and K of the products that the CODA paper times for one of its kernels (arXiv 2605.19269)."""
    return {(side, VOCABULARY.get(task, side * WIDE.get(task, 1)), side) for side in (2048, 4096, 8192)}


def at_the_papers_shapes(verdicts: list[Verdict]) -> list[str]:
    """The tax of the paper's kernels there, by storage dtype and by side."""
    found: dict[str, dict[int, list[Row]]] = {}
    for verdict in verdicts:
        name = verdict["task"].removesuffix(SUFFIX)
        if verdict["tier"] != "closed" or name not in PAPER:
            continue
        task = shipped()[name]
        for row in verdict["timing"]["workloads"]:
            m, n, k = (d.size(row["workload"]["sizes"]) for d in (task.m, task.n, task.k))
            if (m, n, k) in papers_shapes(task.name):
                found.setdefault(key(verdict)[2], {}).setdefault(m, []).append(row)
    lines = []
    for storage, sides in sorted(found.items()):
        rows = [row for some in sides.values() for row in some]
        each = ", ".join(f"{mean(some, 'tax'):.3f} at {side} ({len(some)})" for side, some in sorted(sides.items()))
        lines.append(f"{storage} tax {mean(rows, 'tax'):.3f} over {len(rows)} shapes: {each}")
    return lines


def table(kinds: dict[str, list[Verdict]]) -> list[str]:
    by_name = {KINDS.get(kind, kind): rows_of(verdicts) for kind, verdicts in kinds.items()}
    counted = {KINDS.get(kind, kind): len(verdicts) for kind, verdicts in kinds.items()}
    lines = {
        "kernels, shapes": [f"{counted[name]}, {len(rows)}" for name, rows in by_name.items()],
        "tax over the bare GEMM (1.00: the epilogue is free)": [f"{mean(r, 'tax'):.3f}" for r in by_name.values()],
        "speed-up over torch.compile of the reference": [f"{mean(r, 'over_compile'):.2f}x" for r in by_name.values()],
        "speed-up over the reference as written": [f"{mean(r, 'over_eager'):.2f}x" for r in by_name.values()],
        "shapes faster than the better of the two; undecided; slower": [
            "; ".join(str(sum(r["answer"] == answer for r in rows)) for answer in ANSWERS) for rows in by_name.values()
        ],
    }
    head = ["| geometric means | " + " | ".join(by_name) + " |", "|---|" + "---|" * len(by_name)]
    return head + ["| " + " | ".join([name, *cells]) + " |" for name, cells in lines.items()]


def mean(rows: list[Row], ratio: str) -> float:
    """The geometric mean of a ratio over the shapes that have it."""
    return math.exp(statistics.fmean(math.log(r[ratio]["value"]) for r in rows if ratio in r))


def interval_width(verdicts: list[Verdict]) -> float:
    """Of the tax, as a share of it; the median over all shapes."""
    return statistics.median((r["tax"]["high"] - r["tax"]["low"]) / r["tax"]["value"] for r in rows_of(verdicts))


def slower(verdicts: list[Verdict]) -> list[str]:
    """The shapes on which a baseline is faster beyond doubt."""
    return [
        f"slower: {v['task']} {key(v)[2]}, {' '.join(f'{k}{n}' for k, n in row['workload']['sizes'].items())}: "
        f"{row['over_' + row['best_baseline']]['value']:.3f}x {row['best_baseline']}"
        for v in verdicts
        for row in v["timing"]["workloads"]
        if row["answer"] == "slower"
    ]


if __name__ == "__main__":
    main()
