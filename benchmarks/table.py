"""docs/kernels.md from recordings: `python benchmarks/table.py RECORDING ... > docs/kernels.md`.

A recording is JSON lines, packed by xz if its name says so: verdicts of `admit.py`, and rows of `libraries.py`.  Of two
verdicts on one kernel the later counts.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from codasmith.tasks import Task, shipped_task

WEAK = 1.3
"""A baseline slower than this many times its own unfused roofline is marked: beating it proves little."""
KEPT = ("admitted", "passed")

HEAD = """\
# Kernels

The kernels that ship with the package, as the gate measured them. Made by

```bash
python benchmarks/admit.py TASK ... --store STORE --out verdicts.jsonl     # on a Hopper GPU
python benchmarks/libraries.py --out libraries.jsonl                       # there too: what libraries offer
python benchmarks/table.py benchmarks/results/*-gate.jsonl.xz benchmarks/results/*-libraries.jsonl > docs/kernels.md
```

- **tax**: time of the fused kernel, finishing kernels included, over the bare GEMM of the same shape (the better of the
  template without an epilogue and cuBLAS, in the same rounds); 1.00 means that the epilogue is free. Below 1.00 is
  noise, or a schedule that suits the shape better than those that the bare template raced with.
- **unfused**: time of the fused kernel over the unfused roofline: the bare GEMM plus the compulsory traffic of the
  pointwise rest at the measured copy rate. Below 1.00, no unfused implementation of any quality is as fast.
- **eager**, **compile**: speed-up over the task's reference in the storage dtype, as written and through torch.compile,
  each recorded as a CUDA graph, so that no host time counts; of a kernel with fp8 operands, the reference with
  `torch._scaled_mm` for its product, cuBLAS's too, and then the pointwise rest in bf16. A dash: not measured.
- **library**: speed-up over the best function of an installed library that does the whole job (quack's own, cuBLASLt's
  epilogues), with the fastest of four tiles where it lets one choose; timed beside the kernel admitted then, and
  without the gate's pauses: at the board's power limit, where another schedule may win.
  Liger joins no epilogue to a product but in its cross-entropy, which waits for the host: [using.md](using.md#training)
  has it inside models. coda-kernels is on no package index.
- NAME_fp8 is NAME with fp8 operands: its product is theirs, times `x_scale` and `w_scale`, a scale for each of their
  rows.
- \\* marks a baseline that takes more than 1.3 times its own unfused roofline (of several shapes, at most of them):
  beating that proves little.
- **SoL**: the data sheet's roofline over the measured time.
- **error**: the largest share of its error bound (twice the unfused path's own error, plus rounding) that any output
  took on any workload, ragged ones under every shipped schedule included.
- Brackets hold bootstrap 95 % intervals over rounds; for several shapes, the geometric means of their ends.

Rounds went on until the ratios were sure to a hundredth, or 6 s were over
([trust.md](trust.md#how-the-times-are-taken)).

Shapes: of that paper, M = N = K of 2048, 4096 and 8192 for its kernels (N three times as much for RoPE, and 32768 for
the cross-entropy), 4096 and 8192 for most others; and layers of Llama 3 8B and 70B, Qwen3 8B, Mistral 7B, Gemma 2 9B,
gpt-oss, Nemotron-H 8B, DeepSeek-V3's router, DiT-XL, SigLIP, Whisper and Falcon Mamba, as each task's file says.
Correctness is checked at other shapes too: one, 16 and 128 rows, ragged rows and columns, the smallest legal width,
depths that are no multiple of a tile.

Weights lie as in checkpoints: gate and up one behind the other. Only where a library wants them in turn are they
brought into that order, before its clock runs.
"""

Verdict = dict[str, Any]
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="+", type=Path)
    paths: list[Path] = parser.parse_args().recordings
    lines = recorded(paths)
    print(page(admitted(lines), [r for r in lines if "library" in r], [p.name for p in paths]))


def recorded(paths: list[Path]) -> list[dict[str, Any]]:
    """All lines; one that was cut short is passed over. Ends the program where a file is missing or no recording."""
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise SystemExit(f"no such file: {', '.join(missing)}; pass recordings of admit.py and of libraries.py")
    return [row for path in paths for line in text(path).splitlines() if isinstance(row := _row(line), dict)]


def _row(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def admitted(lines: list[dict[str, Any]]) -> list[Verdict]:
    """The newest admitted verdict on each kernel. Ends the program where there is none."""
    found = {key(v): v for v in lines if v.get("status") in KEPT and v.get("timing", {}).get("workloads")}
    if not found:
        raise SystemExit("no admitted verdict in the files given; pass benchmarks/results/*-gate.jsonl.xz")
    return list(found.values())


def rows_of(verdicts: list[Verdict]) -> list[Row]:
    return [row for verdict in verdicts for row in verdict["timing"]["workloads"]]


def text(recording: Path) -> str:
    try:
        data = recording.read_bytes()
        return (lzma.decompress(data) if recording.suffix == ".xz" else data).decode()
    except (OSError, lzma.LZMAError, ValueError) as error:
        raise SystemExit(f"{recording} cannot be read as a recording ({error}); name what --out wrote") from None


def page(verdicts: list[Verdict], libraries: list[Row], names: list[str]) -> str:
    """The whole document."""
    known = {v["task"]: task for v in verdicts if (task := shipped_task(v["task"]))}
    verdicts = sorted(verdicts, key=lambda v: (known[v["task"]].level if v["task"] in known else 9, *key(v)))
    places = {_place(v["environment"]) for v in verdicts}
    links = ", ".join(f"[{name}](../benchmarks/results/{name})" for name in names)
    parts = [HEAD, f"Measured on {'; '.join(sorted(places))}; recorded in {links}, whose names hold the date.\n"]
    parts += ["## By kernel\n", *_summary(verdicts, libraries, known), ""]
    parts += [_all(verdicts), "", "## By shape\n", *_details(verdicts, libraries), ""]
    parts += ["## Spilled registers\n", *_spills(verdicts), ""]
    failed = [f"{r['library']} on {r['task']}: {r['failed']}" for r in libraries if "failed" in r]
    if failed:
        parts += ["Libraries that could not be measured: " + "; ".join(dict.fromkeys(failed)) + ".", ""]
    return "\n".join([*parts, "## Seconds by stage\n", *_stages(verdicts)])


def key(verdict: Verdict) -> tuple[str, str, str]:
    return verdict["task"], verdict["tier"], verdict["timing"]["workloads"][0]["workload"].get("storage", "bf16")


def _place(environment: dict[str, str]) -> str:
    return f"{environment['gpu']}, driver {environment['driver']}, torch {environment['torch']}"


def _summary(verdicts: list[Verdict], libraries: list[Row], known: dict[str, Task]) -> list[str]:
    lines = [
        "| kernel | level | formula | tier, dtype | shapes | tax | unfused | eager | compile | library |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        task, rows = known.get(verdict["task"]), verdict["timing"]["workloads"]
        sizes = "; ".join(_sizes(r) for r in rows)
        found = [f for r in rows if (f := _library(verdict, r, libraries))]
        cells = [
            verdict["task"],
            str(task.level) if task else "",
            _formula(task) if task else "",
            f"{verdict['tier']}, {key(verdict)[2]}",
            sizes,
            _measure(_together([r["tax"] for r in rows])),
            _measure(_together([unfused(r) for r in rows])),
            *(_measure(_together(_each(rows, k))) + _weak(rows, k) for k in ("eager", "compile")),
            _measure(_together([f["over_library"] for f in found])) + "\\*" * any(map(_is_weak_library, found)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _formula(task: Task) -> str:
    """Its first paragraph; of NAME_fp8 that of NAME."""
    text = " ".join(task.doc.split("\n\n")[0].split()).replace("|", "\\|")
    return text.partition(f" Here {task.gemm} is that of fp8 operands")[0] if task.fp8 else text


def _details(verdicts: list[Verdict], libraries: list[Row]) -> list[str]:
    lines = [
        "| kernel | tier, dtype | sizes | schedule | ms | tax | unfused | eager | compile | library | SoL | error |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        worst = next((s["data"].get("worst") for s in verdict["stages"] if s["stage"] == "numerics"), None)
        for row in verdict["timing"]["workloads"]:
            found = _library(verdict, row, libraries)
            library = f"{_measure(found['over_library'])} {found['library']}" if found else "-"
            cells = [
                verdict["task"],
                f"{verdict['tier']}, {key(verdict)[2]}",
                _sizes(row),
                row["schedule"],
                f"{row['milliseconds']['kernel']:.3f}",
                _measure(row["tax"]),
                _measure(unfused(row)),
                *(_measure(row.get(f"over_{k}")) + _weak([row], k) for k in ("eager", "compile")),
                library + "\\*" * bool(found and _is_weak_library(found)),
                f"{row['sol']:.2f}" if row.get("sol") else "-",
                f"{worst:.2f}" if worst is not None else "-",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _spills(verdicts: list[Verdict]) -> list[str]:
    """The gated schedules that ptxas let spill: by how much, and what the fastest that does not would have cost."""
    lines = [
        "No other schedule that ships spills registers. These were timed because they were among the fastest of the",
        "race all the same, and ship where they won a timed shape. The last column: time in that race of the fastest",
        "schedule without a spill, over its own, on the shape where that is most.",
        "",
        "| kernel | tier, dtype | schedule | bytes a thread | without a spill |",
        "|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        for stage, schedules, gated, races in _races(verdict):
            spilt = {n: c["spill_bytes"] for n, c in schedules.items() if c.get("spill_bytes")}
            for name in filter(spilt.get, gated):
                dry = max(min(t for n, t in race.items() if n not in spilt) / race[name] for race in races)
                what = [verdict["task"], f"{verdict['tier']}, {key(verdict)[2]}", f"{stage} {name}".strip()]
                lines.append("| " + " | ".join([*what, str(spilt[name]), f"{dry:.2f}"]) + " |")
    return lines


def _races(verdict: Verdict) -> Iterator[tuple[str, dict, list[str], list[dict[str, float]]]]:
    """By product, "" the only one: what was compiled, which schedules were gated, and milliseconds of each race."""
    found = {s["stage"]: s["data"] for s in verdict["stages"]}
    compiled, tune = found["compile"], found["tune"]
    if "stages" not in compiled:
        yield "", compiled["schedules"], tune["gated"], list(tune["milliseconds"].values())
        return
    for stage, data in compiled["stages"].items():
        gated = [name.removeprefix(f"{stage}.") for name in tune["gated"] if name.startswith(f"{stage}.")]
        yield stage, data["schedules"], gated, [race[stage] for race in tune["stages"].values()]


def _all(verdicts: list[Verdict]) -> str:
    rows = rows_of(verdicts)
    large = [r for r in rows if r["workload"]["sizes"]["M"] >= 4096]
    tax = _together([r["tax"] for r in rows])["value"]
    over = {k: _together(_each(rows, k)).get("value", math.nan) for k in ("compile", "eager")}
    answers = [r["answer"] for r in large]
    return (
        f"{len(verdicts)} kernels, {len(rows)} shapes. Geometric means: tax {tax:.3f}, {over['compile']:.2f}x "
        f"torch.compile, {over['eager']:.2f}x eager. Of {len(large)} shapes of 4096 rows or more, slower than the "
        f"better baseline: {answers.count('slower')}; undecided: {answers.count('undecided')}."
    )


def _stages(verdicts: list[Verdict]) -> list[str]:
    names = list(dict.fromkeys(s["stage"] for v in verdicts for s in v["stages"]))
    lines = [
        "The budgets, warm: read 0.05, interpret 0.2, compile 5 a schedule, tune 2, numerics 2, guards 1, timing 2.",
        "Timing is over its budget where torch.compile of the baseline is measured anew. Guards are looked at in the",
        "same launches as numerics. A dash: compiled ahead, or no such stage; elsewhere seven schedules at once, the",
        "start of the compile server included.",
        "",
        "| kernel | tier, dtype | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for verdict in verdicts:
        spent = {s["stage"]: s["seconds"] for s in verdict["stages"] if s["outcome"] != "skipped"}
        shown = ("-" if n not in spent or (n == "compile" and spent[n] < 1) else f"{spent[n]:.2f}" for n in names)
        lines.append(f"| {verdict['task']} | {verdict['tier']}, {key(verdict)[2]} | " + " | ".join(shown) + " |")
    return lines


def _library(verdict: Verdict, row: Row, libraries: list[Row]) -> Row | None:
    """The fastest library measured at this shape on the same kind of GPU, beside the admitted kernel."""
    found = [
        {**r, "unfused_roofline": row["unfused_roofline_ms"] / _cublas(row)}
        for r in libraries
        if r["task"] == verdict["task"]
        and r["workload"]["sizes"] == row["workload"]["sizes"]
        and r["workload"].get("storage", "bf16") == row["workload"].get("storage", "bf16")
        and r["environment"]["gpu"] == verdict["environment"]["gpu"]
        and "over_library" in r
    ]
    return min(found, key=lambda r: r["over_library"]["value"], default=None)


def _cublas(row: Row) -> float:
    return row["milliseconds"]["cublas"]


def _is_weak_library(found: Row) -> bool:
    """By ratios to cuBLAS, since the two recordings are of different moments."""
    return found["library_over_cublas"]["value"] > WEAK * found["unfused_roofline"]


def _weak(rows: list[Row], baseline: str) -> str:
    slow = [r["milliseconds"].get(baseline, 0.0) > WEAK * r["unfused_roofline_ms"] for r in rows]
    return "\\*" if sum(slow) * 2 > len(slow) else ""


def unfused(row: Row) -> dict[str, float]:
    """Time over the unfused roofline, whose interval is that of the tax: both stand over the bare GEMM."""
    value = row["milliseconds"]["kernel"] / row["unfused_roofline_ms"]
    return {k: value * row["tax"][k] / row["tax"]["value"] for k in ("value", "low", "high")}


def _each(rows: list[Row], baseline: str) -> list[dict[str, float]]:
    return [r[f"over_{baseline}"] for r in rows if f"over_{baseline}" in r]


def _together(measures: Iterable[dict[str, float]]) -> dict[str, float]:
    """Geometric means of values and of ends; empty for nothing."""
    found = list(measures)
    return {k: math.exp(statistics.fmean(math.log(m[k]) for m in found)) for k in ("value", "low", "high") if found}


def _measure(found: dict[str, float] | None) -> str:
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]" if found else "-"


def _sizes(row: Row) -> str:
    return " ".join(f"{k}{v}" for k, v in row["workload"]["sizes"].items())


if __name__ == "__main__":
    main()
