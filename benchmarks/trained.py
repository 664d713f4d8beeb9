"""What runs of `train.py` found: kept, read again, joined, drawn and told."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from drawing import pyplot, saved
from variants import VARIANTS


def kept(file: Path, found: dict) -> None:
    """Write it in the place of what was there, whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    part.write_text(json.dumps(found) + "\n")
    part.replace(file)


def read(file: Path) -> dict:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{file} cannot be read as what a run wrote ({error}); name a file of --out")
    if not isinstance(found, dict) or "runs" not in found:
        sys.exit(f"{file} holds no run; name a file of --out")
    return found


def plot(found: dict, target: Path) -> None:
    """The losses of all variants and seeds, a running mean over ten steps. Ends the program where there are none."""
    if not any("losses" in row for seeds in found["runs"].values() for row in seeds.values()):
        sys.exit("there are no losses to draw: the file is of --step-1b; name that of a training run")
    figure, axes = pyplot().subplots(figsize=(7, 4.2))
    colours = dict(zip(VARIANTS, ("#1f77b4", "#2ca02c", "#9467bd", "#d62728", "#ff7f0e"), strict=True))
    for variant, seeds in found["runs"].items():
        for i, row in enumerate(seeds.values()):
            mean = [statistics.fmean(row["losses"][max(0, s - 9) : s + 1]) for s in range(len(row["losses"]))]
            axes.plot(mean, colours[variant], label=variant if i == 0 else None, linewidth=0.9, alpha=0.8)
    axes.set(xlabel="step", ylabel="loss (nats a byte), mean over ten steps", yscale="log")
    ticks = [1, 1.25, 1.5, 2, 3, 4, 6]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_title(f"{found['parameters'] / 1e6:.0f}M parameters, {len(next(iter(found['runs'].values())))} seeds each")
    axes.legend()
    figure.tight_layout()
    saved(figure, target)


def summary(found: dict) -> dict:
    """By variant: the mean over seeds of the final loss (of the last 20 steps), its spread, tokens a second."""
    rows = {}
    for variant, seeds in found["runs"].items():
        final = [statistics.fmean(row["losses"][-20:]) for row in seeds.values() if "losses" in row]
        speed = statistics.median(row["tokens_per_second"] for row in seeds.values())
        rows[variant] = {"tokens_per_second": round(speed)}
        for row in seeds.values():
            rows[variant] |= {k: row[k] for k in ("milliseconds", "peak_GiB") if k in row}
        if final:
            rows[variant] |= {"final_loss": statistics.fmean(final), "spread": max(final) - min(final)}
    return rows


def merged(files: list[Path]) -> dict:
    """One file's content of several's, of the same kind of run; of a run in two files the later one's."""
    whole: dict = {}
    for file in files:
        part = read(file)
        same = ("steps", "batch", "length", "configuration", "parameters")
        if missing := [name for name in (*same, "absent") if name not in part]:
            sys.exit(f"{file} does not say its {' and '.join(missing)}; name a file of --out")
        differing = [name for name in same if whole and whole[name] != part[name]]
        if differing:
            sys.exit(f"{file} has other {' and '.join(differing)} than {files[0]}; merge files of runs that are alike")
        if not whole:
            whole = part
            continue
        for variant, seeds in part["runs"].items():
            whole["runs"].setdefault(variant, {}).update(seeds)
        whole["absent"].update(part["absent"])
        whole["fallbacks"] = sorted({*whole.get("fallbacks", []), *part.get("fallbacks", [])})
        for name, ran in part.get("kernels", {}).items():
            kernels = whole.setdefault("kernels", {})
            kernels[name] = sorted({*kernels.get(name, []), *ran})
    whole["runs"] = {v: whole["runs"][v] for v in VARIANTS if v in whole["runs"]}
    whole["summary"] = summary(whole)
    return whole


def told(found: dict) -> None:
    for line in found.get("fallbacks", []):
        print(f"reference: {line}", flush=True)
    for name, ran in found.get("kernels", {}).items():
        print(f"kernel: {name}: {'; '.join(ran)}", flush=True)
    for variant, row in found.get("summary", {}).items():
        print(f"{variant}: {json.dumps(row)}", flush=True)
