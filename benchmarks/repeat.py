"""How far the gate's ratios move when the same kernel is judged again and again: `python benchmarks/repeat.py`.

Each judgement draws new seeds and takes new buffers.  A line is printed for each as it is done; at the end, or when
--limit-s is up, one JSON line a workload: tax and speed-up over eager of each judgement, their spread,
(largest - smallest) / median, and the median width of the 95 % intervals.  --out keeps every judgement as it is made;
the same command with the same file goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from codasmith import gate, verified_kernels
from codasmith.evals.lines import append, read
from codasmith.tasks import Workload, load_task

sys.path.insert(0, str(Path(__file__).parent))
from out_file import out_file

SIZES = {
    "4096": {"M": 4096, "F": 2048, "K": 4096},
    "8192": {"M": 8192, "F": 4096, "K": 8192},
    "tokens": {"M": 16384, "F": 2048, "K": 4096},
}
RATIOS = ("tax", "over_eager")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["4096", "8192"])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--limit-s", type=float, default=1e9, help="begin no judgement after so many seconds")
    parser.add_argument("--out", type=out_file, help="JSON lines: every judgement's workloads, then the summary")
    options = parser.parse_args()
    if not gate.has_gpu():
        raise SystemExit("judging a kernel takes a Hopper GPU, and there is none here")
    started = time.monotonic()
    task = load_task("rmsnorm_swiglu")
    source = (Path(verified_kernels.__file__).parent / "hand_written" / "rmsnorm_swiglu.py").read_text()
    workloads = [Workload.model_validate({"sizes": SIZES[name]}) for name in options.sizes]
    judgements, environment = before(options.out, [w.label for w in workloads])
    for number in range(len(judgements) + 1, options.times + 1):
        begun = time.monotonic()
        if begun - started > options.limit_s:
            print(f"the time is up after {len(judgements)} of {options.times} judgements", flush=True)
            break
        verdict = gate.evaluate(
            task, source, workloads=workloads, compile_baseline=False, rounds=options.rounds
        ).verdict
        seconds = time.monotonic() - begun
        if verdict.status != "passed":
            print(f"{number}: {verdict.status} in {seconds:.1f} s: {verdict.finding or verdict.note}", flush=True)
            break
        if environment and environment != verdict.environment:
            raise SystemExit(f"{options.out} is of another machine or other versions: {environment}; name another file")
        judgements.append(verdict.timing["workloads"])
        environment = verdict.environment
        print(f"{number}: {seconds:.1f} s, {'; '.join(map(_said, judgements[-1]))}", flush=True)
        if options.out:
            append(options.out, {"judgement": number, "seconds": seconds, "workloads": judgements[-1]})
    for line in [{"environment": environment}, *summarise(judgements)] if judgements else []:
        print(json.dumps(line), flush=True)
        if options.out:
            append(options.out, line)
    raise SystemExit(0 if judgements else 1)


def before(out: Path | None, labels: list[str]) -> tuple[list[list[dict[str, Any]]], dict[str, str]]:
    """The judgements of these workloads that the file holds, and the machine of the last of them."""
    lines = list(read([out], "judgements")) if out and out.exists() else []
    found = [line["workloads"] for line in lines if "judgement" in line and "workloads" in line]
    machines = [line["environment"] for line in lines if "environment" in line]
    judged = [rows for rows in found if [Workload.model_validate(r["workload"]).label for r in rows] == labels]
    return judged, machines[-1] if machines else {}


def _said(row: dict[str, Any]) -> str:
    tax = row["tax"]
    held = ", ".join(row.get("gpu", {}).get("held_back_by", []))
    return (
        f"{Workload.model_validate(row['workload']).label}: tax {tax['value']:.4f} [{tax['low']:.4f} {tax['high']:.4f}]"
        f" over {row['bare']}, {row['over_eager']['value']:.4f}x eager, {row['schedule']}, {row['rounds']} rounds"
        + f" ({held})"
        * bool(held)
    )


def summarise(judgements: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One line a workload: every judgement's ratios, their spread, and how wide the intervals were."""
    lines = []
    for rows in zip(*judgements, strict=True):
        line: dict[str, Any] = {
            "workload": Workload.model_validate(rows[0]["workload"]).label,
            "judgements": len(rows),
            "schedules": sorted({r["schedule"] for r in rows}),
            "bare": sorted({r["bare"] for r in rows}),
        }
        for name in RATIOS:
            values = [r[name]["value"] for r in rows]
            line[name] = [round(v, 4) for v in values]
            line[f"{name}_spread"] = round((max(values) - min(values)) / statistics.median(values), 4)
            widths = [(r[name]["high"] - r[name]["low"]) / r[name]["value"] for r in rows]
            line[f"{name}_interval_width"] = round(statistics.median(widths), 4)
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
