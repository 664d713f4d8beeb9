"""How far the gate's ratios move when the same kernel is judged again and again: `python benchmarks/repeat.py`.

Prints one JSON line a workload: the tax and the speed-up over eager of each judgement, and their spread,
(largest - smallest) / median.  Each judgement draws new seeds and takes new buffers.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from codasmith import gate, verified_kernels
from codasmith.tasks import Workload, load_task

SIZES = [{"M": 4096, "F": 2048, "K": 4096}, {"M": 8192, "F": 4096, "K": 8192}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    task = load_task("rmsnorm_swiglu")
    source = (Path(verified_kernels.__file__).parent / "hand_written" / "rmsnorm_swiglu.py").read_text()
    workloads = [Workload(sizes=s) for s in SIZES]
    rows = []
    for _ in range(options.times):
        verdict = gate.evaluate(task, source, workloads=workloads, compile_baseline=False).verdict
        if verdict.status != "passed":
            raise SystemExit(f"the gate did not pass the kernel: {verdict.finding or verdict.note}")
        rows.append(verdict.timing["workloads"])
    print(json.dumps(verdict.environment))
    for number, workload in enumerate(workloads):
        line: dict = {"workload": workload.label, "schedules": sorted({r[number]["schedule"] for r in rows})}
        for name in ("tax", "over_eager"):
            values = [r[number][name]["value"] for r in rows]
            line[name] = [round(v, 4) for v in values]
            line[f"{name}_spread"] = round((max(values) - min(values)) / statistics.median(values), 4)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
