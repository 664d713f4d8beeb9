"""The canary: where a record does not know the machine, a kernel answers one workload before it may answer a user.

Another GPU, driver or CUDA than the kernel was verified on may run the same bytes otherwise.  So the first load
there draws the smallest ordinary workload of the record and judges the kernel by the gate's own rule.  The result
is kept in the cache, one file an object and environment; what failed is set aside until that file is removed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock, Timeout

from ..tasks import Task, Workload, draw
from . import cache as libraries
from .errors import warn
from .record import CompiledObject, Evidence
from .store import Entry, now

if TYPE_CHECKING:
    from .plan import Kernel

LOCK_SECONDS = 120.0
DRIVER_FILE = Path("/proc/driver/nvidia/version")


def quarantined(
    kernel: Kernel, task: Task, entry: Entry, compiled: CompiledObject, device: torch.device, *, always: bool = False
) -> str:
    """Why this kernel may not be used on this machine, in one sentence; empty if it may.

    Runs the kernel and waits for it, once for each environment that the record does not know.
    always: also where the record knows it, for an object that the record does not.
    """
    evidence = entry.record.of(compiled.storage)
    assert evidence is not None
    here = surroundings(device)
    known = all(evidence.environment.get(k, "") == v for k, v in here.items() if k != "cuda")
    if known and _major(evidence.environment.get("cuda", "")) == _major(here["cuda"]) and not always:
        return ""
    marker = _marker(compiled, here)
    try:
        marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(marker.with_suffix(".lock"), timeout=LOCK_SECONDS):
            return _settled(marker, kernel, task, entry, compiled, evidence, device, here)
    except (OSError, Timeout):  # a cache that cannot be written: checked again in each process
        return _check(kernel, task, compiled, evidence, device, entry, here)


def surroundings(device: torch.device) -> dict[str, str]:
    """What of an environment may change a kernel's results: the GPU, its driver, the CUDA release."""
    return {"gpu": torch.cuda.get_device_name(device), "driver": _driver(), "cuda": torch.version.cuda or ""}


def _settled(
    marker: Path,
    kernel: Kernel,
    task: Task,
    entry: Entry,
    compiled: CompiledObject,
    evidence: Evidence,
    device: torch.device,
    here: dict[str, str],
) -> str:
    """The kept result, or a new one. We hold the lock: a check that is marked as begun has ended its process."""
    try:
        kept = json.loads(marker.read_text())
        reason = str(kept["failed"])
        if reason or kept["finished"]:
            return reason
        reason = _sentence(entry, here, "its check ended the process", marker)
        _write(marker, finished=True, failed=reason)
    except FileNotFoundError:
        _write(marker, finished=False, failed="", kernel=entry.name, environment=here, date=now())
        try:
            reason = _check(kernel, task, compiled, evidence, device, entry, here, marker)
        except BaseException:  # interrupted: nothing was learnt
            marker.unlink(missing_ok=True)
            raise
        _write(marker, finished=True, failed=reason, kernel=entry.name, environment=here, date=now())
    except (ValueError, KeyError, TypeError):
        marker.unlink()
        return _settled(marker, kernel, task, entry, compiled, evidence, device, here)
    if reason:
        warn(reason)
    return reason


def _check(
    kernel: Kernel,
    task: Task,
    compiled: CompiledObject,
    evidence: Evidence,
    device: torch.device,
    entry: Entry,
    here: dict[str, str],
    marker: Path | None = None,
) -> str:
    workload = workload_of(task, compiled, evidence)
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            found = _wrong(kernel, task, workload, device)
    except torch.OutOfMemoryError:
        raise  # no kernel's fault
    except (RuntimeError, ValueError) as error:  # a refused or failed launch
        found = f"{type(error).__name__}: {str(error).splitlines()[0]}" if str(error) else type(error).__name__
    return _sentence(entry, here, f"{found} on {workload.label}", marker) if found else ""


def workload_of(task: Task, compiled: CompiledObject, evidence: Evidence) -> Workload:
    """The smallest workload of ordinary values on which this schedule was checked; else the task's plainest."""
    seen = [w.workload for w in evidence.workloads if any(e.schedule == compiled.schedule for e in w.errors)]
    seen = [w for w in seen if w.family == "normal"] or seen
    return min(seen, key=lambda w: math.prod(w.sizes.values()), default=task.correctness_workloads(compiled.storage)[0])


def _wrong(kernel: Kernel, task: Task, workload: Workload, device: torch.device) -> str:
    """What is wrong with the kernel's answer to one workload; empty if nothing is."""
    from ..gate.tolerance import judge_runs

    inputs = draw(task, workload, device)
    given: dict[str, Any] = {k: v.clone() if k in task.accumulates else v for k, v in inputs.items()}  # type: ignore[union-attr]
    fresh = iter(kernel.bound(given)(tuple(given.values())))
    answers = {name: given[name] if name in task.accumulates else next(fresh) for name in task.outputs}
    for name, errors in judge_runs(task, inputs, {"": answers})[""].items():
        if not errors.ok:
            return f"{name}: {errors}"
    return ""


def _sentence(entry: Entry, here: dict[str, str], found: str, marker: Path | None) -> str:
    place = f"{here['gpu']}, driver {here['driver']}, CUDA {here['cuda']}"
    again = f", or remove {marker} to try it again" if marker else ""
    return f"{entry.name} was not verified on {place} and failed a check there ({found}); verify it here{again}"


def _marker(compiled: CompiledObject, here: dict[str, str]) -> Path:
    place = hashlib.sha256(json.dumps({**here, "cuda": _major(here["cuda"])}, sort_keys=True).encode()).hexdigest()
    return libraries.folder().parent / "checked" / f"{compiled.sha256[:32]}-{place[:16]}.json"


def _write(marker: Path, **content: Any) -> None:
    scratch = marker.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(content, indent=1) + "\n")
    scratch.replace(marker)


@cache
def _driver() -> str:
    """The driver's version, such as "580.159.04", without starting a process where the kernel module tells it."""
    try:
        found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", DRIVER_FILE.read_text())
        if found:
            return found[0]
    except OSError:
        pass
    from ..gate.machine import smi

    lines = smi("driver_version")
    return lines[0][0] if lines else "unknown"


def _major(version: str) -> str:
    return version.partition(".")[0]
