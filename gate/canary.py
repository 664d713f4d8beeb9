"""Is the GPU ours alone, and as fast as it was? A fixed product of two matrices says so before anything is timed.

The probe is cuBLAS on operands that never change, so a time that differs from the probe's own recent median has
its cause outside of what is judged: another process, a lower power limit, a throttled board.  It warns, in the
record; it refuses nothing, for ratios are taken within rounds.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from . import nvml

SIDE = 4096
KEPT = 20
SLOWER = 1.10
"""Times the recent median: more is said."""
ENOUGH = 3


def probe() -> float:
    """Milliseconds of the fixed product, the median of a few turns."""
    import torch

    from .baselines import recorded
    from .stopwatch import rounds

    made = torch.Generator("cuda").manual_seed(1)
    a, b = (torch.randn(SIDE, SIDE, device="cuda", generator=made).bfloat16() for _ in range(2))
    out = torch.empty(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    replay = recorded([lambda: torch.matmul(a, b, out=out)] * 10)
    return statistics.median(rounds({"probe": (replay, 10)}, 5, 0.0)["probe"])


def look(folder: Path, environment: dict[str, str], own: set[int]) -> dict[str, Any]:
    """Time the probe, compare it with what is kept for this environment, and keep it."""
    return compare(probe(), folder, environment, nvml.others(own))


def compare(milliseconds: float, folder: Path, environment: dict[str, str], others: list[int]) -> dict[str, Any]:
    """What the probe took, its recent median, who else computes here, and a warning where there is reason for one."""
    path = folder / "canary.json"
    before = _read(path, environment)
    warnings = []
    result: dict[str, Any] = {"milliseconds": milliseconds, "others": others}
    if len(before) >= ENOUGH:
        usual = statistics.median(before)
        result["usual"] = usual
        if milliseconds > SLOWER * usual:
            warnings.append(
                f"a fixed product took {milliseconds:.3f} ms, and {usual:.3f} ms is usual here: something slows the GPU"
            )
    if others:
        warnings.append(f"other processes compute on this GPU ({', '.join(map(str, others))})")
    if warnings:
        result["warning"] = "; ".join(warnings)
    _write(path, environment, [*before, milliseconds][-KEPT:])
    return result


def _read(path: Path, environment: dict[str, str]) -> list[float]:
    try:
        found = json.loads(path.read_text())
        return [float(v) for v in found["milliseconds"]] if found["environment"] == environment else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _write(path: Path, environment: dict[str, str], values: list[float]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps({"environment": environment, "milliseconds": values}))
        part.replace(path)
    except OSError:
        return  # a full or read-only disk costs the memory of the probe, nothing more
