"""A few counters of Nsight Compute for a kernel that passed, on request: what the clock cannot say.

ncu runs in a process of its own, around a launcher that runs one gated object once on inputs that it draws itself;
nothing of it is judged.  Where ncu is missing, may not read the counters or takes too long, one sentence says so, and
the campaign goes on without them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .rendering import one_line

if TYPE_CHECKING:
    from .loop import Gate

LIMIT_S = 60.0
"""For one kernel: starting Python under ncu takes most of it."""
KERNEL = "regex:kernel_cutlass"
"""The names that the compiler gives its kernels; those that draw the inputs have others."""

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
SHARES = {
    "lts__t_sector_hit_rate.pct": "hits in L2",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "tensor pipe active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots used",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy",
}
REGISTERS = "launch__registers_per_thread"
STALLS = {
    "long_scoreboard": "global or local memory, spills too",
    "short_scoreboard": "shared memory, or slow functions such as exp and tanh",
    "gmma": "the tensor core",
    "barrier": "other warps at a barrier",
    "wait": "the fixed latency of the instruction before",
    "math_pipe_throttle": "an arithmetic pipe that is full",
    "mio_throttle": "the queue to shared memory and slow functions",
    "lg_throttle": "the queue to global memory",
    "not_selected": "another warp's turn",
    "sleeping": "a sleep",
    "membar": "a memory fence",
    "drain": "its stores at its end",
    "dispatch_stall": "dispatch",
    "branch_resolving": "a branch",
    "no_instruction": "its instructions to be fetched",
    "imc_miss": "constants",
}
MOST_STALLS = 3
METRICS = (
    READ,
    WRITTEN,
    *SHARES,
    REGISTERS,
    *(f"smsp__average_warps_issue_stalled_{s}_per_issue_active.ratio" for s in STALLS),
)

_STALL = re.compile(r"issue_stalled_(\w+)_per_issue_active")
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:\^)?(\w+)")
_ERROR = re.compile(r"^==(?:ERROR|WARNING)== (.+)", re.MULTILINE)


class NoCounters(Exception):
    """Why there are none, in one sentence."""


def counted(gate: Gate, say: Callable[[str], None] = lambda line: None) -> Gate:
    """The gate, with counters in the timing stage's data of each verdict that passed; or why there are none."""

    def judge(task: Any, source: str, **options: Any) -> Any:
        evaluation = gate(task, source, **options)
        if evaluation.verdict.status != "passed":
            return evaluation
        began = time.monotonic()
        try:
            found = collect(evaluation)
        except NoCounters as error:
            found = {"missing": str(error)}
            say(str(error))
        seconds = time.monotonic() - began
        stages = tuple(
            s.model_copy(update={"data": {**s.data, "counters": found}, "seconds": s.seconds + seconds})
            if s.stage == "timing"
            else s
            for s in evaluation.verdict.stages
        )
        return replace(evaluation, verdict=evaluation.verdict.model_copy(update={"stages": stages}))

    return judge


def collect(evaluation: Any, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The counters of the fastest gated schedule on the first timed workload: schedule, sizes, and values by metric.

    Raises NoCounters.
    """
    program = tool()
    row = next(iter(evaluation.verdict.timing.get("workloads", ())), None)
    if row is None or row["schedule"] not in evaluation.objects:
        raise NoCounters("No counters: they are taken of tasks with one product, once that was timed.")
    path, signature = evaluation.objects[row["schedule"]], evaluation.signatures[row["schedule"]]
    sizes = row["workload"]["sizes"]
    with tempfile.TemporaryDirectory(prefix="codasmith-counters-") as folder:
        copy = Path(folder) / "0.so"
        shutil.copyfile(path, copy)
        item = {"name": "kernel", "path": str(copy), "sizes": [sizes], "signature": signature.model_dump(mode="json")}
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({"items": [item], "folder": folder if evaluation.tier != "closed" else ""}))
        values = _asked(program, job, time.monotonic() + limit_s)
    return {"schedule": row["schedule"], "sizes": sizes, "values": values}


def tool() -> str:
    """Where ncu is. Raises NoCounters where it is not."""
    found = shutil.which("ncu") or next((p for p in ("/usr/local/cuda/bin/ncu",) if Path(p).exists()), "")
    if not found:
        raise NoCounters("No counters: ncu was not found; it comes with Nsight Compute, a part of the CUDA toolkit.")
    return found


def _asked(program: str, job: Path, deadline: float) -> dict[str, float]:
    """Run ncu; once more without the metrics that it says this GPU does not have."""
    metrics = list(METRICS)
    while True:
        text = _run(program, metrics, job, max(deadline - time.monotonic(), 1.0))
        unknown = set(_UNKNOWN.findall(text))
        left = [m for m in metrics if m.partition(".")[0] not in unknown]
        if len(left) in (0, len(metrics)):
            return _understood(text)
        metrics = left


def _understood(text: str) -> dict[str, float]:
    values = parse(text)
    if values:
        return values
    if "ERR_NVGPUCTRPERM" in text:
        raise NoCounters(
            "No counters: this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM); run as root, or "
            "load the driver with NVreg_RestrictProfilingToAdminUsers=0."
        )
    failed = re.search(r"^@@ failed kernel (.+)", text, re.MULTILINE) or _ERROR.search(text)
    said = failed[1] if failed else (text.strip().splitlines() or ["it said nothing"])[-1]
    raise NoCounters(f"No counters: ncu gave none ({one_line(said, 200)}).")


def _run(program: str, metrics: list[str], job: Path, limit_s: float) -> str:
    command = [program, "--csv", "--print-units", "base", "--metrics", ",".join(metrics)]
    command += ["--kernel-name", KERNEL, "--launch-count", "1"]
    command += [sys.executable, "-P", "-m", "codasmith.gate.sanitized", str(job)]
    kept = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR")
    variables = {k: v for k, v in os.environ.items() if k in kept or k.startswith(("CUDA_", "NVIDIA_"))}
    # ncu writes numbers as the locale says, and keeps what it unpacks under HOME.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**variables, "LC_ALL": "C", "HOME": str(job.parent)},
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise NoCounters(f"No counters: ncu took longer than {limit_s:.0f} s and was stopped.") from None


def parse(text: str) -> dict[str, float]:
    """Values by metric, from what `ncu --csv --print-units base` prints: a heading, and a line for each metric.

    The lines of ncu itself and of the program are between them; a metric without a number ("n/a") is left out.
    """
    values: dict[str, float] = {}
    for row in _rows(text):
        try:
            values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            continue
    return values


def _rows(text: str) -> Iterator[dict[str, str]]:
    heading: list[str] = []
    for cells in csv.reader(line for line in text.splitlines() if line.startswith('"')):
        if "Metric Name" in cells and "Metric Value" in cells:
            heading = cells
        elif len(cells) == len(heading):
            yield dict(zip(heading, cells, strict=True))


def told(counters: dict[str, Any]) -> list[str]:
    """The counters as lines of feedback; none where there are none."""
    values = counters.get("values") or {}
    parts = []
    if READ in values and WRITTEN in values:
        parts.append(f"read {values[READ] / 1e6:,.0f} MB of DRAM and wrote {values[WRITTEN] / 1e6:,.0f} MB")
    parts += [f"{words} {values[name]:.0f} %" for name, words in SHARES.items() if name in values]
    if REGISTERS in values:
        parts.append(f"{values[REGISTERS]:.0f} registers a thread")
    sizes = " ".join(f"{symbol}{size}" for symbol, size in (counters.get("sizes") or {}).items())
    lines = [f"counters, {sizes}, schedule {counters.get('schedule')}: {', '.join(parts)}"] if parts else []
    stalls = {m[1]: value for name, value in values.items() if (m := _STALL.search(name)) and m[1] in STALLS}
    most = sorted((s for s in stalls if stalls[s] > 0), key=lambda s: -stalls[s])[:MOST_STALLS]
    if most:
        waits = "; ".join(f"{STALLS[s]} ({s}, {stalls[s]:.2f})" for s in most)
        lines.append(f"what its warps wait for most, in warps an instruction issued: {waits}")
    return lines
