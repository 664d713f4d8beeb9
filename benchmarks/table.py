"""docs/kernels.md from recorded verdicts: `python benchmarks/table.py RECORDING ... > docs/kernels.md`."""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from codasmith.tasks import catalogue

WEAK = 1.3
"""A baseline slower than this many times its own unfused roofline is marked: beating it proves little."""

HEAD = """\
# Kernels

The kernels that ship with the package, as the gate measured them. Made by

```bash
python benchmarks/admit.py TASK ... --store STORE --out verdicts.jsonl     # on a Hopper GPU
python benchmarks/table.py benchmarks/results/*-gate.jsonl > docs/kernels.md
```

- **tax**: time of the fused kernel, finishing kernels included, over the bare GEMM of the same shape (the better of the
  template without an epilogue and cuBLAS, in the same rounds); 1.00 means that the epilogue is free. Below 1.00 is
  noise, or a schedule that suits the shape better than those that the bare template raced with.
- **eager**, **compile**: speed-up over the task's reference in the storage dtype, as written and through torch.compile,
  each recorded as a CUDA graph, so that no host time counts. Brackets: bootstrap 95 % interval over 11 rounds.
- \\* marks a torch.compile time more than 1.3 times its own unfused roofline (bare GEMM plus the compulsory traffic of
  the pointwise rest at the measured copy rate): beating that proves little.
- **SoL**: the data sheet's roofline over the measured time.
- **error**: the largest share of its error bound (twice the unfused path's own error, plus rounding) that any output
  took on any workload, ragged ones under every shipped schedule included.
"""


def main() -> None:
    verdicts = [json.loads(line) for path in sys.argv[1:] for line in Path(path).read_text().splitlines()]
    kept = [v for v in verdicts if v["status"] == "admitted"]
    if not kept:
        raise SystemExit("no admitted verdict in the files given; pass benchmarks/results/*-gate.jsonl")
    known = catalogue()
    kept.sort(key=lambda v: (known[v["task"]].level if v["task"] in known else 9, v["task"], v["tier"]))
    print(HEAD)
    places = sorted(
        {
            f"{v['environment']['gpu']}, driver {v['environment']['driver']}, torch {v['environment']['torch']}"
            for v in kept
        }
    )
    names = ", ".join(Path(p).name for p in sys.argv[1:])
    print(f"Measured on {'; '.join(places)}; recorded in {names}.\n")
    print("| kernel | formula | tier | sizes | schedule | ms | tax | eager | compile | SoL | error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for verdict in kept:
        for number, row in enumerate(verdict["timing"]["workloads"]):
            print(_line(verdict, row, known, first=number == 0))
    rows = [row for v in kept for row in v["timing"]["workloads"]]
    large = [r for r in rows if r["workload"]["sizes"]["M"] >= 4096]
    print(
        f"\n{len(kept)} kernels, {len(rows)} shapes. Geometric means: tax {_mean(rows, 'tax'):.3f}, "
        f"{_mean(rows, 'over_compile'):.2f}x torch.compile, {_mean(rows, 'over_eager'):.2f}x eager. "
        f"Slower than the better baseline: {sum(r['answer'] == 'slower' for r in large)} of {len(large)}; "
        f"undecided: {sum(r['answer'] == 'undecided' for r in large)}."
    )
    print("\n## Seconds by stage\n")
    print(
        "The budgets, warm: read 0.05, interpret 0.2, compile 5 a schedule, tune 2, numerics 2, guards 1, timing 2.\n"
        "Timing is over its budget: most of it is torch.compile of the baselines, a new one for every shape.\n"
        "Guards are looked at in the same launches as numerics. A dash: compiled ahead, on a machine without a GPU;\n"
        "elsewhere seven schedules at once, the start of the compile server included.\n"
    )
    print("| kernel | tier | " + " | ".join(s["stage"] for s in kept[0]["stages"]) + " |")
    print("|---|---|" + "---|" * len(kept[0]["stages"]))
    for verdict in kept:
        cells = [
            "-" if s["stage"] == "compile" and s["seconds"] < 1 else f"{s['seconds']:.2f}" for s in verdict["stages"]
        ]
        print(f"| {verdict['task']} | {verdict['tier']} | " + " | ".join(cells) + " |")


def _line(verdict: dict[str, Any], row: dict[str, Any], known: dict[str, Any], *, first: bool) -> str:
    task = known.get(verdict["task"])
    formula = task.doc.splitlines()[0].replace("|", "\\|") if task else ""
    milliseconds = row["milliseconds"]
    weak = "compile" in milliseconds and milliseconds["compile"] > WEAK * row["unfused_roofline_ms"]
    worst = next((s["data"].get("worst") for s in verdict["stages"] if s["stage"] == "numerics"), None)
    cells = [
        verdict["task"],
        formula if first else "",
        verdict["tier"],
        " ".join(f"{k}{v}" for k, v in row["workload"]["sizes"].items()),
        row["schedule"],
        f"{milliseconds['kernel']:.3f}",
        _measure(row["tax"]),
        _measure(row["over_eager"]),
        _measure(row["over_compile"]) + "\\*" * weak if "over_compile" in row else "-",
        f"{row['sol']:.2f}",
        f"{worst:.2f}" if worst is not None else "-",
    ]
    return "| " + " | ".join(cells) + " |"


def _measure(found: dict[str, float]) -> str:
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    values = [r[key]["value"] for r in rows if key in r]
    return math.exp(statistics.fmean(map(math.log, values)))


if __name__ == "__main__":
    main()
